/** Numbers, sizes and times as text. A dash stands for an unknown value. */

export const NONE = "–";

export function count(value: number | null | undefined): string {
  return value == null ? NONE : Math.round(value).toLocaleString("en");
}

/** About three significant digits; the width rarely changes from one value to the next. */
export function number(value: number | null | undefined): string {
  if (value == null || !Number.isFinite(value)) return NONE;
  const size = Math.abs(value);
  if (size !== 0 && (size < 0.001 || size >= 1e6)) return value.toExponential(2);
  if (size >= 1000) return count(value);
  return value.toFixed(size >= 100 ? 0 : size >= 10 ? 1 : size >= 1 ? 2 : 4);
}

export function rate(value: number | null | undefined): string {
  if (value == null) return NONE;
  return value >= 100 ? count(value) : value.toFixed(1);
}

export function bytes(value: number | null | undefined): string {
  if (value == null) return NONE;
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let unit = 0;
  let left = value;
  while (left >= 1024 && unit < units.length - 1) {
    left /= 1024;
    unit += 1;
  }
  return `${unit && left < 100 ? left.toFixed(1) : Math.round(left)} ${units[unit]}`;
}

/** A short time, such as that of a request. */
export function latency(seconds: number | null | undefined): string {
  if (seconds == null) return NONE;
  if (seconds < 0.001) return `${Math.round(seconds * 1e6)} µs`;
  if (seconds < 1) return `${(seconds * 1000).toFixed(seconds < 0.1 ? 1 : 0)} ms`;
  return `${seconds.toFixed(1)} s`;
}

/** A long time, such as that of a job. */
export function duration(seconds: number | null | undefined): string {
  if (seconds == null || !Number.isFinite(seconds)) return NONE;
  const whole = Math.max(0, Math.round(seconds));
  const [hours, minutes] = [Math.floor(whole / 3600), Math.floor((whole % 3600) / 60)];
  if (hours >= 48) return `${Math.floor(hours / 24)} d ${hours % 24} h`;
  if (hours) return `${hours} h ${minutes} min`;
  return minutes ? `${minutes} min ${whole % 60} s` : `${whole} s`;
}

export function percent(part: number): string {
  return `${Math.floor(part * 100)}%`;
}

export function clock(moment: string | number | Date): string {
  return new Date(moment).toLocaleTimeString("en-GB");
}

/** A time of today without the date, other times with it. */
export function moment(text: string | null | undefined): string {
  if (!text) return NONE;
  const date = new Date(text);
  const isToday = date.toDateString() === new Date().toDateString();
  const day = date.toLocaleDateString("en-GB", { day: "numeric", month: "short" });
  return isToday ? clock(date) : `${day}, ${clock(date).slice(0, 5)}`;
}

export function plural(many: number, noun: string): string {
  return `${count(many)} ${noun}${many === 1 ? "" : "s"}`;
}

export function shape(sizes: readonly number[] | null | undefined): string {
  return sizes ? `(${sizes.join(", ")})` : NONE;
}

/** The sum of numbers by name; servers of other versions may send other values among them. */
export function sumOf(parts: Record<string, unknown> | null | undefined): number {
  return Object.values(parts ?? {}).reduce<number>((sum, one) => sum + (typeof one === "number" ? one : 0), 0);
}
