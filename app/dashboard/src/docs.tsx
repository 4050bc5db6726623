import { render } from "preact";
import { DocsPage } from "./docs/page";
import "./styles/base.css";
import "./styles/shell.css";
import "./styles/parts.css";
import "./styles/docs.css";

const root = document.getElementById("app");
if (root) render(<DocsPage />, root);
