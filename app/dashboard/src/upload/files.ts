/** Which of the files that somebody dropped make a model together. */

export interface Model {
  /** What it may be called. */
  name: string;
  symbol: File | null;
  /** By epoch, the newest first. */
  params: File[];
  states: File[];
  archive: File | null;
  /** Names of classes, a line each. */
  labels: File | null;
}

export interface Sorted {
  models: Model[];
  /** Files that are of no model. */
  others: File[];
}

const MOST_FILES = 10_000;
const MOST_DEPTH = 8;
const LOOKED_AT = 4096;
const NUMBERED = /^(.*)-(\d{4,})\.(params|states)$/;

/** Return all files that were dropped, those within folders, too. */
export async function dropped(transfer: DataTransfer): Promise<File[]> {
  // The list of items is emptied when this returns to the browser: all entries are taken first.
  const taken = Array.from(transfer.items, (item) => {
    const entry = item.webkitGetAsEntry();
    return entry?.isDirectory ? entry : item.getAsFile();
  });
  const found: File[] = [];
  for (const one of taken) {
    if (one instanceof File) found.push(one);
    else if (one) await walk(one, found, 0);
  }
  return found;
}

async function walk(entry: FileSystemEntry, found: File[], depth: number): Promise<void> {
  if (found.length >= MOST_FILES || depth > MOST_DEPTH) return;
  if (entry.isFile) {
    const file = await new Promise<File>((resolve, reject) => (entry as FileSystemFileEntry).file(resolve, reject));
    found.push(file);
    return;
  }
  const reader = (entry as FileSystemDirectoryEntry).createReader();
  for (;;) {
    const some = await new Promise<FileSystemEntry[]>((resolve, reject) => reader.readEntries(resolve, reject));
    if (some.length === 0) return;
    for (const one of some) await walk(one, found, depth + 1);
  }
}

/** Put the files together that make a model. */
export async function sorted(files: readonly File[]): Promise<Sorted> {
  const models: Model[] = [];
  const left: File[] = [];
  for (const file of files) {
    if (/\.(mar|model)$/.test(file.name)) models.push(modelOf(stem(file.name), { archive: file }));
    else if (await isSymbol(file)) models.push(modelOf(file.name.replace(/(-symbol)?\.json$/, ""), { symbol: file }));
    else left.push(file);
  }
  const ofSymbols = models.filter((one) => one.symbol);
  const others: File[] = [];
  for (const file of left) {
    const prefix = NUMBERED.exec(file.name)?.[1] ?? stem(file.name);
    const of = ofSymbols.find((one) => one.name === prefix) ?? (ofSymbols.length === 1 ? ofSymbols[0] : undefined);
    if (/\.params$/.test(file.name) && of) of.params.push(file);
    else if (/\.states$/.test(file.name) && of) of.states.push(file);
    else if (/^(synset|labels|classes)\.txt$/.test(file.name) && of) of.labels = file;
    else others.push(file);
  }
  for (const one of models) one.params.sort((a, b) => b.name.localeCompare(a.name, "en", { numeric: true }));
  return { models, others };
}

/** Return the states that were saved with parameters, by their names. */
export function statesOf(model: Model, params: File): File | null {
  return model.states.find((one) => stem(one.name) === stem(params.name)) ?? null;
}

/** Whether the server can tell the epoch of a file of parameters from its name. */
export function saysEpoch(params: File): boolean {
  return NUMBERED.test(params.name);
}

function modelOf(name: string, parts: Partial<Model>): Model {
  return { name: nameOf(name), symbol: null, params: [], states: [], archive: null, labels: null, ...parts };
}

/** Return a name that the server takes. */
export function nameOf(text: string): string {
  return text.replace(/[^A-Za-z0-9._-]+/g, "-").replace(/^[^A-Za-z0-9]+/, "").slice(0, 128) || "model";
}

export function stem(name: string): string {
  return name.replace(/\.[^.]*$/, "");
}

async function isSymbol(file: File): Promise<boolean> {
  if (!/\.json$/.test(file.name)) return false;
  if (/-symbol\.json$/.test(file.name)) return true;
  return (await file.slice(0, LOOKED_AT).text()).includes('"nodes"');
}
