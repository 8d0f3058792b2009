import { expect, type Locator, type Page } from "@playwright/test";

/** A person at a keyboard types so many keys a second, and takes so many seconds to read what a screen says. */
const keysASecond = 4;
const secondsALook = 3;

/**
 * Hands that use only the keyboard, and count what they do: a script's time is that of a person with these hands, and not that of the
 * machine which runs the test. A key with Control counts as two keys.
 */
export class Hands {
  keys = 0;
  looks = 0;
  constructor(private readonly page: Page) {}

  async type(text: string): Promise<void> {
    this.keys += text.length;
    await this.page.keyboard.type(text);
  }

  async press(...keys: readonly string[]): Promise<void> {
    for (const k of keys) {
      this.keys += k.split("+").length;
      await this.page.keyboard.press(k);
    }
  }

  /** Presses Tab until something has the focus. */
  async tabTo(what: Locator): Promise<void> {
    for (let i = 0; i < 60; i++) {
      await this.press("Tab");
      if (await what.evaluate((e) => e === document.activeElement)) return;
    }
    throw new Error(`60 times Tab do not lead to ${what}`);
  }

  /** Reads what must be on the screen. */
  async look(where: Locator, what: string | RegExp): Promise<void> {
    this.looks++;
    await expect(where).toContainText(what);
  }

  seconds(): number {
    return this.keys / keysASecond + this.looks * secondsALook;
  }

  /** Fails if the script takes a person a minute. */
  done(script: string): void {
    console.log(`${script}: ${this.keys} keys, ${this.looks} looks, ${this.seconds().toFixed(0)} s`);
    expect(this.seconds(), script).toBeLessThan(60);
  }
}
