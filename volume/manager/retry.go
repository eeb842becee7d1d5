package manager

import (
	"time"
)

type retry struct {
	kind  kind
	delay time.Duration
	at    time.Time
}

const (
	firstDelay = 500 * time.Millisecond
	maxDelay   = 2*time.Minute + 2*time.Second
	// maxClaimDelay bounds the back-off of reading a claim, which upstream reads at each
	// attempt to start the pod.
	maxClaimDelay = 15 * time.Second
)

// failed records a failure. A different kind of operation restarts the back-off.
func (r *retry) failed(k kind, now time.Time) {
	if r.kind != k {
		*r = retry{kind: k}
	}
	most := maxDelay
	if k == doNothing {
		most = maxClaimDelay
	}
	r.delay = min(max(2*r.delay, firstDelay), most)
	r.at = now.Add(r.delay)
}

func (r *retry) until(k kind) time.Time {
	if r.kind != k {
		return time.Time{}
	}
	return r.at
}

// retryPlugin ends the back-off of a plugin's volumes. If a running operation fails, its next
// delay is the first one again.
func (rc *reconciler) retryPlugin(plugin string) {
	now := func(a item) {
		a.base().retry = retry{}
		rc.touch(a)
	}
	for _, p := range rc.pods {
		for key, v := range p.volumes {
			if key.plugin == plugin {
				now(v)
			}
		}
	}
	for id, s := range rc.shared {
		if id.Plugin == plugin {
			now(s)
		}
	}
	if l := rc.lists[plugin]; l != nil {
		now(l)
	}
}

// retryVerification ends the back-off of shared volumes that wait for their attachment.
func (rc *reconciler) retryVerification() {
	for _, s := range rc.shared {
		if s.retry.kind == doVerify {
			s.retry = retry{}
			rc.touchShared(s)
		}
	}
}
