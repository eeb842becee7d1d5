package summary

import (
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/volume/usage"
)

// Claims returns the usage of volumes by PersistentVolumeClaim. If several pods use one claim, the
// newest measurement counts. Like Logs, it returns from memory.
func (p *Provider) Claims() map[types.NamespacedName]usage.Usage {
	out := map[types.NamespacedName]usage.Usage{}
	p.measured(func(f *folder, u usage.Usage) {
		if last, seen := out[f.claim]; f.claim.Name != "" && (!seen || last.Measured.Before(u.Measured)) {
			out[f.claim] = u
		}
	})
	return out
}

// Log is the size of a container's logs in bytes.
type Log struct {
	UID                       types.UID
	Namespace, Pod, Container string
	Bytes                     int64
}

// Logs returns the sizes of the logs of all containers that have some.
func (p *Provider) Logs() (out []Log) {
	p.measured(func(f *folder, u usage.Usage) {
		if log := f.log; log.UID != "" {
			log.Bytes = u.Bytes
			out = append(out, log)
		}
	})
	return out
}

// measured calls f for each measured folder. f is called with mu locked.
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
