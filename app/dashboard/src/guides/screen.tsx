/** A guide; the list of all guides is one, too. */
import { useEffect } from "preact/hooks";
import { send } from "../api/client";
import { Resource } from "../live/resource";
import { Missing } from "../parts/stale";
import { link, place } from "../router";
import { Content, type GuideNode } from "./content";
import "./guides.css";

interface Guide {
  name: string;
  title: string;
  content: GuideNode[];
}

const INDEX = "index";
const known = new Map<string, Resource<Guide>>();

function guideOf(name: string): Resource<Guide> {
  const found = known.get(name);
  if (found) return found;
  const load = async (signal: AbortSignal): Promise<Guide> =>
    (await (await send("GET", `/guides/${encodeURIComponent(name)}`, { signal })).json()) as Guide;
  const made = new Resource(load);
  known.set(name, made);
  return made;
}

export function GuidesScreen({ name = INDEX }: { name?: string }) {
  const resource = guideOf(name);
  const loaded = resource.state.value;
  const guide = loaded.data;
  const at = place.value.query.get("at");
  useEffect(() => {
    if (!resource.state.peek().data) void resource.refresh();
  }, [name]);
  useEffect(() => {
    document.title = `${guide?.title ?? "Guides"} · modserve`;
    if (guide && at) document.getElementById(at)?.scrollIntoView();
  }, [guide, at]);
  if (!guide) return <section class="panel"><Missing of={loaded} what="The guide" /></section>;
  return (
    <div class="guide">
      <article class="panel">
        {name !== INDEX && <p class="quiet"><a href={link(["guides"])}>Guides</a></p>}
        <Content of={guide.content} />
      </article>
      <Sections of={guide} />
    </div>
  );
}

function Sections({ of }: { of: Guide }) {
  const headings = of.content.filter((node) => node[0] === "h2") as Exclude<GuideNode, string>[];
  if (headings.length < 2) return null;
  return (
    <nav class="sections" aria-label="Sections">
      {headings.map(([, { id }, ...inside]) => <a key={id} href={link(["guides", of.name], { at: String(id) })}><Content of={inside} /></a>)}
    </nav>
  );
}
