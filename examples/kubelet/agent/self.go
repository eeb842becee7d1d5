package agent

import (
	"context"
	"os"
	"time"

	coordv1 "k8s.io/api/coordination/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/cri"
	"github.com/podwright/podwright/examples/kubelet/apiserver"
	kubelet "github.com/podwright/podwright/examples/kubelet/node"
)

// defaultMaxPods is maxPods: another one is refused as long as nobody holds pods to it.
const defaultMaxPods = 110

// newNode registers this machine and says how it is. What is known of the runtime and of
// volumes is asked of the part that has a connection, while there is one.
func (g *ground) newNode(c *cluster, now func() state) (*kubelet.Node, error) {
	k, flags := &g.cfg.Kubelet, &g.cfg.Flags
	reserved, err := kubelet.ParseReservations(k)
	if err != nil {
		return nil, err
	}
	facts, err := kubelet.NewGatherer(kubelet.GathererConfig{
		Root:     os.DirFS("/"),
		Storage:  kubelet.StorageOf(flags.RootDir),
		Reserved: reserved,
		MaxPods:  defaultMaxPods, MaxImages: *k.NodeStatusMaxImages,
		Runtime:      func() (name, version string) { return now().runtimeVersion() },
		Health:       func() cri.Health { return now().runtime() },
		Images:       func(ctx context.Context) ([]*runtimeapi.Image, error) { return now().images(ctx) },
		VolumesInUse: func() []v1.UniqueVolumeName { return now().volumesInUse() },
		Declared:     func() []string { return kubelet.Declared(now().runtime().Features) },
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
		Nodes:         heartbeats{c.heartbeats}, Leases: heartbeats{c.heartbeats},
		Cached:            c.thisNode,
		Facts:             facts.Facts,
		NotReady:          func() []string { return now().notReady() },
		OnNode:            func(*v1.Node) { now().wakeVolumes() },
		OnRepeatedFailure: c.heartbeats.CloseConnections,
		Event:             c.recorder.Event,
		Logger:            g.cfg.Logger,
	})
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
	return s.node.conn.Name, s.node.conn.Version
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

// notReady are the reasons why pods should not come here.
func (s state) notReady() (why []string) {
	if s.node == nil {
		return []string{"container runtime: " + s.err.Error()}
	}
	why = kubelet.NotReady(s.runtime())
	if err := s.node.syncer.Healthy(); err != nil {
		why = append(why, err.Error())
	}
	return why
}

// wakeVolumes lets those go on that wait for a word about the node.
func (s state) wakeVolumes() {
	if s.node != nil {
		s.node.volumes.manager.Wake()
	}
}

// heartbeats are the calls about the Node and its Lease.
type heartbeats struct{ client *apiserver.Client }

// GetNode implements kubelet.NodeClient.
func (h heartbeats) GetNode(ctx context.Context, name string) (*v1.Node, error) {
	return h.client.Nodes().Get(ctx, name, metav1.GetOptions{})
}

// CreateNode implements kubelet.NodeClient.
func (h heartbeats) CreateNode(ctx context.Context, n *v1.Node) (*v1.Node, error) {
	return h.client.Nodes().Create(ctx, n, metav1.CreateOptions{})
}

// PatchNodeStatus implements kubelet.NodeClient.
func (h heartbeats) PatchNodeStatus(ctx context.Context, name string, patch []byte) (*v1.Node, error) {
	return h.client.Nodes().Patch(ctx, name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
}

// GetLease implements kubelet.LeaseClient.
func (h heartbeats) GetLease(ctx context.Context, name string) (*coordv1.Lease, error) {
	return h.client.Leases(kubelet.LeaseNamespace).Get(ctx, name, metav1.GetOptions{})
}

// CreateLease implements kubelet.LeaseClient.
func (h heartbeats) CreateLease(ctx context.Context, l *coordv1.Lease) (*coordv1.Lease, error) {
	return h.client.Leases(kubelet.LeaseNamespace).Create(ctx, l, metav1.CreateOptions{})
}

// UpdateLease implements kubelet.LeaseClient.
func (h heartbeats) UpdateLease(ctx context.Context, l *coordv1.Lease) (*coordv1.Lease, error) {
	return h.client.Leases(kubelet.LeaseNamespace).Update(ctx, l, metav1.UpdateOptions{})
}
