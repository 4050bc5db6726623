/** Which of the dropped files form a model together. */

export interface Model {
  /** The proposed name. */
  name: string;
  /** Its folder within the chosen one. */
  folder: string;
  symbol: File | null;
  /** The symbols of other buckets, with the keys in their names. */
  symbols: File[];
  /** The files of several epochs, the newest first. */
  params: File[];
  states: File[];
  archive: File | null;
  /** Names of classes, one per line. */
  labels: File | null;
}

export interface Sorted {
  models: Model[];
  /** Files that belong to no model. */
  others: File[];
}

const MOST_FILES = 10_000;
const MOST_DEPTH = 8;
const OF_BUCKET = /-\d+-symbol\.json$/;
const LOOKED_AT = 4096;
/** Folders of dropped files, for which browsers leave `webkitRelativePath` empty. */
const DROPPED_IN = new WeakMap<File, string>();
/** Browsers add ` (1)` to a file that is there already. */
const NUMBERED = /^(.*)-(\d{4,})(?: ?\(\d+\))?\.(params|states)$/;
const ARCHIVE = /\.(mar|model|tar\.gz|tgz)$/;
const PARAMS = /(^params|\.params)$/;

/** Return all dropped files, including those within folders. */
export async function dropped(transfer: DataTransfer): Promise<File[]> {
  // All entries are read first, because the browser empties the list once the event handler awaits.
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
  for (;;) { // each call returns some of the entries (100 in Chrome), an empty list after the last
    const some = await new Promise<FileSystemEntry[]>((resolve, reject) => reader.readEntries(resolve, reject));
    if (some.length === 0) return;
    for (const one of some) await walk(one, found, depth + 1);
  }
}

/** Group the files by model. */
export async function sorted(files: readonly File[]): Promise<Sorted> {
  const models: Model[] = [];
  const left: File[] = [];
  for (const file of files) {
    if (ARCHIVE.test(file.name)) models.push(modelOf(file, { archive: file }));
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
    if (PARAMS.test(file.name) && of) of.params.push(file);
    else if (/\.states$/.test(file.name) && of) of.states.push(file);
    else if (/^(synset|labels|classes)\.txt$/.test(file.name) && of) of.labels = file;
    else others.push(file);
  }
  nameApart(models);
  for (const one of models) one.params.sort((a, b) => b.name.localeCompare(a.name, "en", { numeric: true }));
  return { models, others };
}

/** Return the model to which a file belongs, one of those in its folder if there are any. */
function ownerOf(file: File, models: readonly Model[]): Model | undefined {
  const prefix = nameOf(NUMBERED.exec(file.name)?.[1] ?? stem(file.name));
  const beside = models.filter((one) => one.folder === folderOf(file));
  const near = beside.length > 0 ? beside : models;
  return near.find((one) => one.name === prefix) ?? (near.length === 1 ? near[0] : undefined);
}

/** Name models after their folders if the names of their files are the same. */
function nameApart(models: readonly Model[]): void {
  const isAlone = (model: Model): boolean => models.every((one) => one === model || one.name !== model.name);
  for (const one of models.filter((each) => !isAlone(each))) {
    one.name = nameOf(one.folder.slice(one.folder.lastIndexOf("/") + 1) || one.name);
  }
}

/** The path of a model's symbol or archive, by which the user chooses it. */
export function placeOf({ folder, symbol, archive }: Model): string {
  return [folder, (symbol ?? archive)?.name].filter(Boolean).join("/");
}

function folderOf(file: File): string {
  return DROPPED_IN.get(file) ?? parent(file.webkitRelativePath);
}

function parent(path: string): string {
  return path.slice(0, Math.max(0, path.lastIndexOf("/"))).replace(/^\//, "");
}

/** Return the file of states that has the same name as one of parameters. */
export function statesOf(model: Model, params: File): File | null {
  return model.states.find((one) => stem(one.name) === stem(params.name)) ?? null;
}

/** Whether the name of a file of parameters contains its epoch. */
export function saysEpoch(params: File): boolean {
  return NUMBERED.test(params.name);
}

function modelOf(file: File, parts: Partial<Model>): Model {
  const name = nameOf(stem(file.name.replace(ARCHIVE, ".mar")).replace(/(-\d+)?-symbol(?: ?\(\d+\))?$/, ""));
  return { name, folder: folderOf(file), symbol: null, symbols: [], params: [], states: [], archive: null, labels: null, ...parts };
}

/** Return a name that the server accepts. */
export function nameOf(text: string): string {
  return text.replace(/[^A-Za-z0-9._-]+/g, "-").replace(/^[^A-Za-z0-9]+/, "").slice(0, 128) || "model";
}

export function stem(name: string): string {
  return name.replace(/\.[^.]*$/, "");
}

async function isSymbol(file: File): Promise<boolean> {
  if (!/\.json$/.test(file.name)) return false;
  if (/-symbol(?: ?\(\d+\))?\.json$/.test(file.name)) return true;
  return (await file.slice(0, LOOKED_AT).text()).includes('"nodes"');
}
