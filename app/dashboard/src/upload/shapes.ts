/** Shapes as text: `64, 1, 28, 28`. */

export function written(sizes: readonly (number | null)[] | null | undefined): string {
  return sizes ? sizes.join(", ") : "";
}

/** Return the sizes; null if the text is not a shape. */
export function readShape(text: string): number[] | null {
  const parts = text.replace(/^[\s([]+|[\s)\]]+$/g, "").split(/[\s,x×]+/).filter(Boolean);
  return parts.length > 0 && parts.every((one) => /^\d+$/.test(one)) ? parts.map(Number) : null;
}
