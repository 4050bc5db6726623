/** What a server found wrong with a form, at the fields that it names. */
import { type Fault, Refused } from "../api/client";

export class Faults {
  private readonly told: readonly Fault[];

  constructor(private readonly error: Error | null = null) {
    this.told = error instanceof Refused ? error.faults : [];
  }

  /** What is wrong with a field, or with what is below it. */
  at(...fields: string[]): string[] {
    return this.told.filter((one) => fields.some((field) => isOf(one, field))).map(inWords);
  }

  /** What is wrong with none of these fields. */
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
