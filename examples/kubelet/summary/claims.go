package summary

import (
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/volume/usage"
)

// Claims are what the volumes of PersistentVolumeClaims use that pods on the node have; of
// several pods with one claim, what was measured last. It answers from memory, as Logs does.
func (p *Provider) Claims() map[types.NamespacedName]usage.Usage {
	out := map[types.NamespacedName]usage.Usage{}
	p.measured(func(f *folder, u usage.Usage) {
		if last, seen := out[f.claim]; f.claim.Name != "" && (!seen || last.Measured.Before(u.Measured)) {
			out[f.claim] = u
		}
	})
	return out
}

// Log is what the logs of a container use, in bytes.
type Log struct {
	UID                       types.UID
	Namespace, Pod, Container string
	Bytes                     int64
}

// Logs are those of all containers that have some.
func (p *Provider) Logs() (out []Log) {
	p.measured(func(f *folder, u usage.Usage) {
		if log := f.log; log.UID != "" {
			log.Bytes = u.Bytes
			out = append(out, log)
		}
	})
	return out
}

// measured calls f for all folders of which it is known what they use.
func (p *Provider) measured(f func(*folder, usage.Usage)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, m := range p.measure.pods {
		for dir, folder := range m.folders {
			if u, ok := p.cfg.Meter.Known(dir); ok {
				f(folder, u)
			}
		}
	}
}
