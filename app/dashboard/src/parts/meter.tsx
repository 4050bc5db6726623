/** A part of a whole, as a bar. */
export function Meter({ part, label, isIdle = false }: { part: number; label: string; isIdle?: boolean }) {
  const width = Math.min(1, Math.max(0, part)) * 100;
  return (
    <div class={`meter ${isIdle ? "idle" : ""}`} role="progressbar" aria-valuenow={Math.round(width)} aria-valuemin={0} aria-valuemax={100} aria-label={label}>
      <span style={{ width: `${width}%` }} />
    </div>
  );
}
