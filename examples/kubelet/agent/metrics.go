package agent

import (
	"errors"
	"net/http"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/cri/images"
	"github.com/podwright/podwright/examples/kubelet/cgroups"
	"github.com/podwright/podwright/examples/kubelet/config"
	"github.com/podwright/podwright/examples/kubelet/metrics"
	nodestatus "github.com/podwright/podwright/examples/kubelet/node"
	"github.com/podwright/podwright/examples/kubelet/server"
	"github.com/podwright/podwright/examples/kubelet/summary"
	"github.com/podwright/podwright/pleg/observed"
	"github.com/podwright/podwright/podworkers"
	"github.com/podwright/podwright/status/writer"
	"github.com/podwright/podwright/syncloop"
	"github.com/podwright/podwright/volume/manager"
	"github.com/podwright/podwright/volume/usage"
)

// NewMetrics returns the metrics of an agent with this configuration.
func NewMetrics(cfg *config.Config) (*metrics.Metrics, error) {
	m := metrics.Config{NodeName: cfg.Flags.NodeName, Version: nodestatus.Version, CgroupVersion: int(cgroups.HostVersion())}
	for _, g := range cfg.Gates() {
		f := metrics.Feature{Name: g.Name, Stage: g.Stage, Enabled: g.Enabled}
		if f.Stage == "GA" {
			f.Stage = ""
		}
		m.Features = append(m.Features, f)
	}
	return metrics.New(m)
}

// Measures returns the handlers of metrics and statistics.
func (a *Agent) Measures() server.Measures {
	m := a.cfg.Metrics
	return server.Measures{
		Metrics: m.Handler(), Probes: m.ProbesHandler(), SLIs: m.SLIsHandler(),
		Summary:  a.connected.handler(func(n *node) http.Handler { return n.summary.Stats() }),
		Resource: a.connected.handler(func(n *node) http.Handler { return n.summary.Resource() }),
		CAdvisor: a.connected.handler(func(n *node) http.Handler { return n.summary.Cadvisor() }),
	}
}

func (a *Agent) live() metrics.Live {
	c := &a.connected
	l := metrics.Live{
		Workers:  from(c, func(n *node) []podworkers.PodState { return n.syncer.Workers().Pods() }),
		Desired:  from(c, func(n *node) []*v1.Pod { return n.lifecycle.desired.Pods() }),
		Mirrors:  from(c, func(n *node) []*v1.Pod { return n.lifecycle.desired.Mirrors() }),
		Active:   from(c, func(n *node) []*v1.Pod { return n.lifecycle.active() }),
		Observed: from(c, func(n *node) []observed.ListedPod { return n.syncer.PLEG().Pods() }),
		ListedAt: from(c, func(n *node) time.Time { return n.syncer.PLEG().ListedAt() }),
		Volumes:  from(c, func(n *node) map[manager.Count]int { return n.volumes.manager.Counts() }),
		Status: func(uid types.UID) *v1.PodStatus {
			return from(c, func(n *node) *v1.PodStatus { return n.syncer.Statuses().Get(uid) })()
		},
		Claims:  from(c, func(n *node) map[types.NamespacedName]usage.Usage { return n.summary.Claims() }),
		Logs:    from(c, func(n *node) []summary.Log { return n.summary.Logs() }),
		Records: a.records,
		Health:  a.failures,
	}
	if a.cfg.Flags.Kubeconfig != "" {
		l.ClientExpires, l.Credential = a.clientExpires, a.credential
	}
	if a.cfg.API != nil {
		l.ServingExpires = a.servingExpires
	}
	return l
}

func (a *Agent) records() (pulling, pulled int) {
	if n, _ := a.connected.get(); n != nil {
		return n.records.Counts()
	}
	return 0, 0
}

// failures returns the checks of healthz by name. A passed check has a nil error.
func (a *Agent) failures() map[string]error {
	out := map[string]error{}
	for _, c := range a.Health() {
		out[c.Name] = nil
		if !c.OK {
			out[c.Name] = errors.New(c.Message)
		}
	}
	return out
}

func (a *Agent) clientExpires() (at time.Time) {
	if in := a.inputs.Load(); in != nil && in.cluster != nil {
		return in.cluster.client.Expires()
	}
	return at
}

func (a *Agent) credential() error {
	if in := a.inputs.Load(); in != nil && in.cluster != nil {
		return in.cluster.credential()
	}
	return nil
}

func (a *Agent) servingExpires() (at time.Time) {
	in := a.inputs.Load()
	if in == nil || in.api == nil {
		return at
	}
	if c := in.api.certificate(); c != nil && c.Leaf != nil {
		return c.Leaf.NotAfter
	}
	return at
}

func imageMetrics(m *metrics.Metrics) images.Metrics {
	out := m.Images.Callbacks()
	out.OnWait = m.Pods.Waited
	return out
}

func statusConfig(m *metrics.Metrics, c *cluster) writer.Config {
	p := m.Pods
	return writer.Config{Sinks: c.sinks(), OnChange: p.StatusChanged, Metrics: p.Statuses(apiSource)}
}

func counted(onReject func(reason string), admit syncloop.AdmitterFunc) syncloop.AdmitterFunc {
	return func(pod *v1.Pod, active []*v1.Pod) error {
		err := admit(pod, active)
		if why := (*syncloop.Rejection)(nil); errors.As(err, &why) {
			onReject(why.Reason)
		}
		return err
	}
}

// countConnection counts the abilities that the runtime lacks.
func countConnection(m *metrics.Metrics, conn *Connection) {
	if conn.hasNoDriver {
		// This version requires a runtime that reports its cgroup driver (KEP-4033).
		m.Node.LosingSupport("1.37.0")
	}
}

// seen records when the Node was registered and when it became ready.
func seen(m *metrics.Metrics, node *v1.Node) {
	now := time.Now()
	m.Node.Registered(now)
	for _, c := range node.Status.Conditions {
		if c.Type == v1.NodeReady && c.Status == v1.ConditionTrue {
			m.Node.Ready(now)
		}
	}
}
