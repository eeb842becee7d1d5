package agent

import (
	"context"
	"errors"
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

// newSelf registers this machine as a Node and updates its status. The figures of the runtime and
// of volumes are zero while there is no connection.
func newSelf(cfg *Config, c *cluster) (*kubelet.Node, error) {
	k, flags := &cfg.Kubelet, &cfg.Flags
	reserved, err := kubelet.ParseReservations(k)
	if err != nil {
		return nil, err
	}
	storage := kubelet.StorageOf(flags.RootDir)
	if !*k.LocalStorageCapacityIsolation {
		storage = nil
	}
	health := from(c.runtime, func(n *node) cri.Health { return n.health.Health() })
	facts, err := kubelet.NewGatherer(kubelet.GathererConfig{
		Root:     os.DirFS("/"),
		Storage:  storage,
		Reserved: reserved,
		Port:     cfg.port(),
		MaxPods:  k.MaxPods, PodsPerCore: k.PodsPerCore, MaxImages: *k.NodeStatusMaxImages,
		Runtime:      c.runtime.version,
		Health:       health,
		Images:       c.runtime.images,
		VolumesInUse: from(c.runtime, func(n *node) []v1.UniqueVolumeName { return n.volumes.inUse() }),
		Declared: func() []string {
			if h := health(); !h.LastGood.IsZero() {
				return kubelet.Declared(h.Features)
			}
			return nil
		},
		Pressure: from(c.runtime, (*node).pressure),
		Logger:   cfg.Logger,
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
		Look:              c.look,
		OnRegister:        func() { cfg.Metrics.Node.Registering(time.Now()) },
		OnNode:            func(node *v1.Node) { seen(cfg.Metrics, node) },
		OnRepeatedFailure: c.heartbeats.CloseConnections,
		Event:             c.recorder.Event,
		Logger:            cfg.Logger,
	})
}

func (c *Config) port() int32 {
	if c.API == nil {
		return 0
	}
	return c.Kubelet.Port
}

func (c *connected) version() (name, version string) {
	n, _ := c.get()
	if n == nil {
		return "", ""
	}
	return n.conn.Name, plainVersion(*n.health.release.version.Load())
}

// plainVersion returns the version without a leading v and without a distribution's suffix, as
// Nodes report it. A version in an unknown format stays unchanged.
func plainVersion(text string) string {
	if v, err := version.ParseSemantic(text); err == nil {
		return v.String()
	}
	if v, err := version.ParseGeneric(text); err == nil {
		return v.String()
	}
	return text
}

func (c *connected) images(ctx context.Context) ([]*runtimeapi.Image, error) {
	n, _ := c.get()
	if n == nil {
		return nil, nil
	}
	return n.conn.Images.ListImages(ctx, nil)
}

// notReady returns the reasons of the runtime, of the syncer and of a shutdown.
func (n *node) notReady() []string {
	why := kubelet.NotReady(n.health.Health())
	if err := n.syncer.Healthy(); err != nil {
		why = append(why, err.Error())
	}
	if n.shutdown.goingDown() {
		why = append(why, shutdown.NotReady)
	}
	return why
}

// look polls the runtime, and returns an error while it or the list of pods is unavailable. A
// shutdown waits for neither.
func (n *node) look(ctx context.Context) error {
	if n.shutdown.goingDown() {
		return nil
	}
	return errors.Join(n.health.Poll(ctx), n.syncer.Healthy())
}

// pressure returns nil before the first measurement. The Node then keeps its conditions.
func (n *node) pressure() *nodestatus.Pressure {
	if !n.evictor.Measured() {
		return nil
	}
	p := nodestatus.Pressure(n.evictor.Pressure())
	return &p
}
