// Search on pages that are opened from the disk: browsers start no workers there, so the script of a worker runs in a
// hidden frame. The theme looks for the name IFrameWorker.
if (location.protocol === "file:") {
  window.IFrameWorker = class extends EventTarget {
    constructor(url) {
      super()
      this.waiting = []
      this.frame = document.createElement("iframe")
      this.frame.hidden = true
      document.documentElement.append(this.frame)
      const inside = this.frame.contentWindow
      inside.postMessage = data => this.dispatchEvent(new MessageEvent("message", { data }))
      inside.importScripts = (...urls) => Promise.all(urls.map(each => this.run(each)))
      this.run(new URL(url, location.href)).then(() => {
        const early = this.waiting
        this.waiting = null
        early.forEach(data => this.postMessage(data))
      })
    }

    run(url) {
      return new Promise((done, failed) => {
        const script = this.frame.contentDocument.createElement("script")
        Object.assign(script, { src: url, onload: done, onerror: failed })
        this.frame.contentDocument.documentElement.append(script)
      })
    }

    postMessage(data) {
      if (this.waiting) this.waiting.push(data)
      else this.frame.contentWindow.dispatchEvent(new MessageEvent("message", { data }))
    }

    terminate() {
      this.frame.remove()
    }
  }
  window.Worker = window.IFrameWorker
}
