/* Search in pages that are opened from the disk. Browsers give such pages no worker, so the worker's script runs in a hidden frame. */
(() => {
  if (location.protocol !== "file:") return;
  window.Worker = class extends EventTarget {
    #inner;
    #waiting = [];
    constructor(address) {
      super();
      const frame = document.createElement("iframe");
      frame.hidden = true;
      document.body.append(frame);
      this.#inner = frame.contentWindow;
      this.#inner.postMessage = (data) => this.#tell(data);
      const script = frame.contentDocument.createElement("script");
      script.src = new URL(address, location.href).href;
      script.onload = () => {
        const waiting = this.#waiting;
        this.#waiting = null;
        waiting.forEach((data) => this.postMessage(data));
      };
      frame.contentDocument.body.append(script);
    }
    postMessage(data) {
      if (this.#waiting) this.#waiting.push(data);
      else this.#inner.dispatchEvent(new this.#inner.MessageEvent("message", { data }));
    }
    #tell(data) {
      const event = new MessageEvent("message", { data });
      this.onmessage?.(event);
      this.dispatchEvent(event);
    }
    terminate() {
      this.#inner.frameElement.remove();
    }
  };
})();
