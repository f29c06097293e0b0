/* Runs the search in a hidden frame when pages are opened from a folder: browsers refuse to start a Worker from a
   file: address. The theme's `offline` plugin would otherwise fetch such a script from another site. */
if (location.protocol === "file:") {
  class IFrameWorker extends EventTarget {
    constructor(url) {
      super()
      const frame = document.createElement("iframe")
      frame.hidden = true
      document.documentElement.append(frame)
      this.inside = frame.contentWindow
      this.waiting = []
      this.inside.postMessage = data => this.dispatchEvent(new MessageEvent("message", { data }))
      this.inside.importScripts = (...urls) => urls.reduce((before, next) => before.then(() => this.load(next)), Promise.resolve())
      this.load(new URL(url, location.href).href).then(() => {
        this.waiting.forEach(data => this.deliver(data))
        this.waiting = undefined
      })
    }

    load(url) {
      const script = this.inside.document.createElement("script")
      script.src = url
      return new Promise((loaded, failed) => {
        script.onload = loaded
        script.onerror = failed
        this.inside.document.head.append(script)
      })
    }

    deliver(data) {
      this.inside.dispatchEvent(new this.inside.MessageEvent("message", { data }))
    }

    postMessage(data) {
      if (this.waiting) this.waiting.push(data)
      else this.deliver(data)
    }
  }

  window.Worker = window.IFrameWorker = IFrameWorker
}
