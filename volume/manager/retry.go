package manager

import (
	"time"
)

// retry holds back an operation that has failed.
type retry struct {
	kind  kind
	delay time.Duration
	at    time.Time
}

const (
	firstDelay = 500 * time.Millisecond
	mostDelay  = 2*time.Minute + 2*time.Second
	// mostClaimDelay is that of reading a claim: upstream reads it whenever it tries to
	// start the pod.
	mostClaimDelay = 15 * time.Second
)

// failed counts a failure. Another operation than before starts afresh.
func (r *retry) failed(k kind, now time.Time) {
	if r.kind != k {
		*r = retry{kind: k}
	}
	most := mostDelay
	if k == doNothing {
		most = mostClaimDelay
	}
	r.delay = min(max(2*r.delay, firstDelay), most)
	r.at = now.Add(r.delay)
}

// until is until when an operation is held back.
func (r *retry) until(k kind) time.Time {
	if r.kind != k {
		return time.Time{}
	}
	return r.at
}

// tryAgain ends the pauses after failures. An operation that runs may have looked too
// early: if it fails, its pause is the first one.
func (w *world) tryAgain(plugin string) {
	now := func(a actor) {
		a.base().retry = retry{}
		w.touch(a)
	}
	for _, p := range w.pods {
		for key, v := range p.volumes {
			if key.plugin == plugin {
				now(v)
			}
		}
	}
	for id, s := range w.shared {
		if id.Plugin == plugin {
			now(s)
		}
	}
	if l := w.lists[plugin]; l != nil {
		now(l)
	}
}

// lookAgain has everything tried again at once that waits for volumes to be attached.
func (w *world) lookAgain() {
	for _, s := range w.shared {
		if s.retry.kind == doVerify {
			s.retry = retry{}
			w.touchShared(s)
		}
	}
}
