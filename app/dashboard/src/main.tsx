import { render } from "preact";
import { App } from "./shell/app";
import "./styles/base.css";
import "./styles/shell.css";
import "./styles/parts.css";
import "./styles/forms.css";

const root = document.getElementById("app");
if (root) render(<App />, root);
