/** A guide's elements, parsed from Markdown by the server; only those listed here are rendered. */
import { type ComponentChildren, h } from "preact";
import { useRef, useState } from "preact/hooks";

export type GuideNode = string | [tag: string, attributes: Record<string, string | number>, ...children: GuideNode[]];

const TAGS = new Set("h1 h2 h3 p ul ol li strong em blockquote code thead tbody tr th td".split(" "));
const LANGUAGES: Record<string, string> = { bash: "Shell", python: "Python", output: "Output", yaml: "YAML", json: "JSON" };
const WRITTEN_FOR = /http:\/\/127\.0\.0\.1:8000/g;
const COPIED_MS = 2000;

export function Content({ of }: { of: GuideNode[] }) {
  return <>{of.map((node, index) => <Element key={index} of={node} />)}</>;
}

function Element({ of }: { of: GuideNode }): ComponentChildren {
  if (typeof of === "string") return of;
  const [tag, attributes, ...children] = of;
  const inside = <Content of={children} />;
  if (tag === "pre") return <Code text={here(String(children[0]))} language={String(attributes.language)} note={String(attributes.note)} />;
  if (tag === "img") return <Picture of={attributes} />;
  if (tag === "a") return <a href={String(attributes.href)} rel="noreferrer">{inside}</a>;
  if (tag === "table") return <div class="scroll" tabIndex={0} role="region" aria-label="Table"><table>{inside}</table></div>;
  if (tag === "code") return <code>{here(String(children[0]))}</code>;
  if (!TAGS.has(tag)) return null;
  return h(tag, { id: attributes.id, class: attributes.class }, inside);
}

/** Replace the default address, for which guides are written, by this server's, so that copied commands work. */
function here(text: string): string {
  return text.replace(WRITTEN_FOR, new URL(".", location.href).href.replace(/\/$/, ""));
}

function Picture({ of }: { of: Record<string, string | number> }) {
  return <img src={String(of.src)} alt={String(of.alt)} width={of.width} height={of.height} />;
}

function Code({ text, language, note }: { text: string; language: string; note: string }) {
  const area = useRef<HTMLPreElement>(null);
  const [isCopied, setCopied] = useState(false);
  const copied = (): void => {
    setCopied(true);
    setTimeout(() => setCopied(false), COPIED_MS);
  };
  const title = LANGUAGES[language];
  const near = /±\S+/.exec(note)?.[0];
  return (
    <figure class={`listing ${language}`}>
      {title && (
        <figcaption>
          <span>{title}{near && ` (numbers within ${near})`}</span>
          {language !== "output" && (
            <button class="plain small push" onClick={() => copy(text, area.current, copied)}>{isCopied ? "Copied" : "Copy"}</button>
          )}
        </figcaption>
      )}
      <pre ref={area} tabIndex={0} role="region" aria-label={title ?? "Text"}>{text}</pre>
    </figure>
  );
}

/** Copy a text to the clipboard; without TLS browsers only offer the old way, by selecting it first. */
function copy(text: string, area: HTMLElement | null, done: () => void): void {
  if (navigator.clipboard) {
    void navigator.clipboard.writeText(text).then(done, () => {});
    return;
  }
  if (area) getSelection()?.selectAllChildren(area);
  if (document.execCommand("copy")) done();
}
