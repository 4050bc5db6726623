/** Follows the server's events, and resumes a broken stream where it broke. */
import { type Frame, readFrames } from "./stream";

export type LinkState = "connecting" | "live" | "broken" | "logged_out";

export type Message =
  | { type: "state"; state: LinkState; since: number }
  | { type: "frame"; frame: Frame };

/** A stream that is silent for this long is broken: the server sends something every two seconds. */
const SILENCE_MS = 15_000;
const FIRST_WAIT_MS = 1000;
const LONGEST_WAIT_MS = 15_000;

export class Follower {
  private state: LinkState = "connecting";
  private since = Date.now();
  private lastId: string | null = null;
  private wait = FIRST_WAIT_MS;
  private isRunning = false;
  /** Number of loops begun. A stopped loop recognizes by it that it must end, even if another one has begun since. */
  private loop = 0;
  private attempt = new AbortController();
  private wake = (): void => {};

  constructor(
    private readonly base: string,
    private readonly tell: (message: Message) => void,
  ) {}

  /** Begin, or try again at once. */
  start(): void {
    this.wait = FIRST_WAIT_MS;
    this.wake();
    if (this.isRunning) return;
    this.isRunning = true;
    void this.run(++this.loop);
  }

  stop(): void {
    this.isRunning = false;
    this.attempt.abort();
    this.wake();
    this.become("connecting");
  }

  current(): Message {
    return { type: "state", state: this.state, since: this.since };
  }

  private async run(loop: number): Promise<void> {
    while (this.isRunning && loop === this.loop) {
      await this.follow();
      if (!this.isRunning || loop !== this.loop) return;
      await new Promise<void>((resolve) => {
        this.wake = resolve;
        setTimeout(resolve, this.wait);
      });
      this.wait = Math.min(this.wait * 2, LONGEST_WAIT_MS);
    }
  }

  private async follow(): Promise<void> {
    const attempt = (this.attempt = new AbortController());
    let timer = setTimeout(() => attempt.abort(), SILENCE_MS);
    const isAlive = (): void => {
      clearTimeout(timer);
      timer = setTimeout(() => attempt.abort(), SILENCE_MS);
    };
    try {
      const headers: Record<string, string> = this.lastId ? { "Last-Event-ID": this.lastId } : {};
      const url = new URL(`v1/events${this.lastId ? "" : "?after=latest"}`, this.base);
      const response = await fetch(url, { headers, signal: attempt.signal, cache: "no-store" });
      if (response.status === 401 || response.status === 403) {
        this.isRunning = false;
        this.become("logged_out");
        return;
      }
      if (!response.ok) throw new Error(String(response.status));
      this.become("live");
      this.wait = FIRST_WAIT_MS;
      const onFrame = (frame: Frame): void => {
        isAlive();
        this.lastId = frame.id;
        this.tell({ type: "frame", frame });
      };
      await readFrames(response, onFrame, isAlive);
    } catch {
      // Reported below, and tried again.
    } finally {
      clearTimeout(timer);
    }
    if (attempt === this.attempt && this.isRunning) this.become("broken");
  }

  private become(state: LinkState): void {
    if (this.state === state) return;
    this.state = state;
    this.since = Date.now();
    this.tell(this.current());
  }
}
