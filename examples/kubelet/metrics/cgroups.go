package metrics

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/podwright/podwright/cri/cgroups"
	kernel "github.com/podwright/podwright/examples/kubelet/cgroups"
)

// Cgroups measures cgroup operations.
type Cgroups struct{ took *prometheus.HistogramVec }

func newCgroups(b *builder, version int) *Cgroups {
	b.gauge("kubelet_cgroup_version", "Version of the machine's cgroups.").Set(float64(version))
	return &Cgroups{b.histograms("kubelet_cgroup_manager_duration_seconds", "Duration of cgroup operations, by operation.", nil, operationType)}
}

// Count returns a kernel that measures the operations of k.
func (c *Cgroups) Count(k kernel.Kernel) kernel.Kernel { return countedKernel{k, c} }

type countedKernel struct {
	kernel.Kernel
	to *Cgroups
}

// Set implements kernel.Kernel. It counts an update if the cgroup exists, a creation otherwise.
func (k countedKernel) Set(ctx context.Context, n cgroups.Name, v cgroups.Values) error {
	what := "create"
	if there, err := k.IsComplete(n); err == nil && there {
		what = "update"
	}
	defer k.done(what, time.Now())
	return k.Kernel.Set(ctx, n, v)
}

// Remove implements kernel.Kernel.
func (k countedKernel) Remove(ctx context.Context, n cgroups.Name) error {
	defer k.done("destroy", time.Now())
	return k.Kernel.Remove(ctx, n)
}

func (k countedKernel) done(what string, began time.Time) {
	k.to.took.WithLabelValues(what).Observe(time.Since(began).Seconds())
}
