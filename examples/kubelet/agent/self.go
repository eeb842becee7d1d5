package agent

import (
	"context"
	"os"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/version"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/cri"
	kubelet "github.com/podwright/podwright/examples/kubelet/node"
	nodestatus "github.com/podwright/podwright/status/node"
	"github.com/podwright/podwright/syncloop/shutdown"
)

// newSelf registers this machine and says how it is. What is known of the runtime and of
// volumes is asked of the part that has a connection, while there is one.
func (g *ground) newSelf(c *cluster) (*kubelet.Node, error) {
	k, flags := &g.cfg.Kubelet, &g.cfg.Flags
	reserved, err := kubelet.ParseReservations(k)
	if err != nil {
		return nil, err
	}
	storage := kubelet.StorageOf(flags.RootDir)
	if !*k.LocalStorageCapacityIsolation {
		storage = nil
	}
	facts, err := kubelet.NewGatherer(kubelet.GathererConfig{
		Root:     os.DirFS("/"),
		Storage:  storage,
		Reserved: reserved,
		Port:     g.port(),
		MaxPods:  k.MaxPods, PodsPerCore: k.PodsPerCore, MaxImages: *k.NodeStatusMaxImages,
		Runtime:      func() (name, version string) { return c.now().runtimeVersion() },
		Health:       func() cri.Health { return c.now().runtime() },
		Images:       func(ctx context.Context) ([]*runtimeapi.Image, error) { return c.now().images(ctx) },
		VolumesInUse: func() []v1.UniqueVolumeName { return c.now().volumesInUse() },
		Declared:     func() []string { return kubelet.Declared(c.now().runtime().Features) },
		Pressure:     func() nodestatus.Pressure { return c.now().pressure() },
		Logger:       g.cfg.Logger,
	})
	if err != nil {
		return nil, err
	}
	return kubelet.New(kubelet.Config{
		Name: flags.NodeName, Labels: flags.NodeLabels, Taints: k.RegisterWithTaints, ProviderID: k.ProviderID,
		Addressing:       kubelet.Addressing{IPs: flags.NodeIP, External: flags.ExternalCloud},
		NoRegister:       !*k.RegisterNode,
		ControllerAttach: true,
		Update:           k.NodeStatusUpdateFrequency.Duration, Report: k.NodeStatusReportFrequency.Duration,
		LeaseDuration: time.Duration(k.NodeLeaseDurationSeconds) * time.Second,
		Nodes:         c.heartbeats.OwnNode(), Leases: c.heartbeats.OwnNode(),
		Cached:            c.thisNode,
		Facts:             facts.Facts,
		NotReady:          c.notReady,
		OnRegister:        func() { g.cfg.Metrics.Node.Registering(time.Now()) },
		OnNode:            g.seen,
		OnRepeatedFailure: c.heartbeats.CloseConnections,
		Event:             c.recorder.Event,
		Logger:            g.cfg.Logger,
	})
}

// port is where the kubelet API is served, zero for nowhere.
func (g *ground) port() int32 {
	if g.cfg.API == nil {
		return 0
	}
	return g.cfg.Kubelet.Port
}

// runtime is what the runtime says of itself: nothing while there is no connection.
func (s state) runtime() cri.Health {
	if s.node == nil {
		return cri.Health{}
	}
	return s.node.health.Health()
}

func (s state) runtimeVersion() (name, version string) {
	if s.node == nil {
		return "", ""
	}
	return s.node.conn.Name, plainVersion(*s.node.health.release.version.Load())
}

// plainVersion is a version as all Nodes show it, without what a distribution has added and a
// leading v; one that is in no known form stays.
func plainVersion(text string) string {
	if v, err := version.ParseSemantic(text); err == nil {
		return v.String()
	}
	if v, err := version.ParseGeneric(text); err == nil {
		return v.String()
	}
	return text
}

func (s state) images(ctx context.Context) ([]*runtimeapi.Image, error) {
	if s.node == nil {
		return nil, nil // not known
	}
	return s.node.conn.Images.ListImages(ctx, nil)
}

func (s state) volumesInUse() []v1.UniqueVolumeName {
	if s.node == nil {
		return nil
	}
	names, known := s.node.volumes.manager.InUse()
	if !known {
		return nil
	}
	out := make([]v1.UniqueVolumeName, 0, len(names))
	for _, name := range names {
		out = append(out, v1.UniqueVolumeName(name))
	}
	return out
}

// notReady are the runtime's reasons, and those of this agent.
func (s state) notReady() (why []string) {
	if s.node == nil {
		return []string{"container runtime: " + s.err.Error()}
	}
	why = kubelet.NotReady(s.runtime())
	if err := s.node.syncer.Healthy(); err != nil {
		why = append(why, err.Error())
	}
	if m := s.node.shutdown; m != nil && m.GoingDown() {
		why = append(why, shutdown.NotReady)
	}
	return why
}
