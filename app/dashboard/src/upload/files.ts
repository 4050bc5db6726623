/** Which of the files that somebody dropped make a model together. */

export interface Model {
  /** What it may be called. */
  name: string;
  /** Where it lies within the folder that was chosen. */
  folder: string;
  symbol: File | null;
  /** Of other buckets, whose keys their names have. */
  symbols: File[];
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
const OF_BUCKET = /-\d+-symbol\.json$/;
const LOOKED_AT = 4096;
/** Folders of files that were dropped, of which a browser does not say it. */
const DROPPED_IN = new WeakMap<File, string>();
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
    DROPPED_IN.set(file, parent(entry.fullPath));
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
    if (/\.(mar|model)$/.test(file.name)) models.push(modelOf(file, { archive: file }));
    else if (await isSymbol(file)) {
      const made = modelOf(file, { symbol: file });
      const of = OF_BUCKET.test(file.name) && models.find((one) => one.name === made.name && one.folder === made.folder && OF_BUCKET.test(one.symbol?.name ?? ""));
      if (of) of.symbols.push(file);
      else models.push(made);
    } else if (!/\.buckets$/.test(file.name)) left.push(file);
  }
  models.sort((a, b) => placeOf(a).localeCompare(placeOf(b), "en", { numeric: true }));
  const others: File[] = [];
  for (const file of left) {
    const of = ownerOf(file, models.filter((one) => one.symbol));
    if (/\.params$/.test(file.name) && of) of.params.push(file);
    else if (/\.states$/.test(file.name) && of) of.states.push(file);
    else if (/^(synset|labels|classes)\.txt$/.test(file.name) && of) of.labels = file;
    else others.push(file);
  }
  nameApart(models);
  for (const one of models) one.params.sort((a, b) => b.name.localeCompare(a.name, "en", { numeric: true }));
  return { models, others };
}

/** Return the model that a file is of: of those in its folder, if there are any. */
function ownerOf(file: File, models: readonly Model[]): Model | undefined {
  const prefix = nameOf(NUMBERED.exec(file.name)?.[1] ?? stem(file.name));
  const beside = models.filter((one) => one.folder === folderOf(file));
  const near = beside.length > 0 ? beside : models;
  return near.find((one) => one.name === prefix) ?? (near.length === 1 ? near[0] : undefined);
}

/** Call models by their folders where the names of their files do not tell them apart. */
function nameApart(models: readonly Model[]): void {
  const isAlone = (model: Model): boolean => models.every((one) => one === model || one.name !== model.name);
  for (const one of models.filter((each) => !isAlone(each))) {
    one.name = nameOf(one.folder.slice(one.folder.lastIndexOf("/") + 1) || one.name);
  }
}

/** Where the file lies that says what a model is, as somebody chooses it. */
export function placeOf({ folder, symbol, archive }: Model): string {
  return [folder, (symbol ?? archive)?.name].filter(Boolean).join("/");
}

function folderOf(file: File): string {
  return DROPPED_IN.get(file) ?? parent(file.webkitRelativePath);
}

function parent(path: string): string {
  return path.slice(0, Math.max(0, path.lastIndexOf("/"))).replace(/^\//, "");
}

/** Return the states that were saved with parameters, by their names. */
export function statesOf(model: Model, params: File): File | null {
  return model.states.find((one) => stem(one.name) === stem(params.name)) ?? null;
}

/** Whether the server can tell the epoch of a file of parameters from its name. */
export function saysEpoch(params: File): boolean {
  return NUMBERED.test(params.name);
}

function modelOf(file: File, parts: Partial<Model>): Model {
  const name = nameOf(stem(file.name).replace(/(-\d+)?-symbol$/, ""));
  return { name, folder: folderOf(file), symbol: null, symbols: [], params: [], states: [], archive: null, labels: null, ...parts };
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
