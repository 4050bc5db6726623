/** The server's errors about a form, by the fields that they name. */
import { type Fault, Refused } from "../api/client";

export class Faults {
  private readonly told: readonly Fault[];

  constructor(private readonly error: Error | null = null) {
    this.told = error instanceof Refused ? error.faults : [];
  }

  /** The errors of a field, or of those below it. */
  at(...fields: string[]): string[] {
    return this.told.filter((one) => fields.some((field) => isOf(one, field))).map(inWords);
  }

  /** All other errors. */
  elsewhere(...fields: string[]): string[] {
    if (!this.error) return [];
    if (this.told.length === 0) return [this.error.message];
    return this.told.filter((one) => !fields.some((field) => isOf(one, field))).map((one) => `${one.field}: ${inWords(one)}`);
  }
}

function isOf({ field }: Fault, name: string): boolean {
  return field === name || field.startsWith(`${name}.`) || field.startsWith(`${name}[`);
}

function inWords({ got, expected, hint }: Fault): string {
  return `Got ${got}; expected ${expected}${hint ? `; ${hint}` : ""}.`;
}
