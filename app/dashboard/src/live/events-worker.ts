/**
 * One stream of events for all tabs of a browser, because over HTTP/1.1 browsers open at most six
 * connections to a server, which streams of several tabs would use up.
 */
import { Follower, type Message } from "./follower";

export type FromTab = { type: "hello"; base: string } | { type: "bye" } | { type: "retry" } | { type: "stop" };
export type Port = MessagePort | Worker;

const ports = new Set<Port>();
let follower: Follower | null = null;

function tellAll(message: Message): void {
  for (const port of ports) port.postMessage(message);
}

function listen(port: Port): void {
  port.onmessage = ({ data }: MessageEvent<FromTab>) => {
    if (data.type === "hello") {
      ports.add(port);
      follower ??= new Follower(data.base, tellAll);
      port.postMessage(follower.current());
      follower.start();
    } else if (data.type === "bye") {
      ports.delete(port);
      if (ports.size === 0) follower?.stop();
    } else if (data.type === "stop") {
      follower?.stop();
    } else {
      follower?.start();
    }
  };
}

if ("onconnect" in self) addEventListener("connect", (event) => (event as MessageEvent).ports.forEach(listen));
else listen(self as unknown as Worker); // not shared: the worker of one tab
