package agent

import (
	"maps"
	"os"
	"runtime"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	kubelet "github.com/podwright/podwright/examples/kubelet/node"
	nodestatus "github.com/podwright/podwright/status/node"
)

type machine struct {
	capacity v1.ResourceList
	reserved kubelet.Reservations
	// node is the Node as the agent knows it without an API server, with the allocatable resources.
	node *v1.Node
}

// newMachine reads the hardware. It returns an error if the reservations exceed it.
func newMachine(cfg *Config) (*machine, error) {
	reserved, err := kubelet.ParseReservations(&cfg.Kubelet)
	if err != nil {
		return nil, err
	}
	facts, err := kubelet.ReadMachine(os.DirFS("/"))
	if err != nil {
		return nil, err
	}
	online, err := kubelet.OnlineCPUs(os.DirFS("/"))
	if err != nil {
		return nil, err
	}
	if facts.Storage, err = kubelet.StorageOf(cfg.Flags.RootDir)(); err != nil {
		return nil, err
	}
	node := localNode(cfg)
	node.Status = *nodestatus.Compute(nil, nodestatus.Facts{
		Machine: &facts, Reserved: reserved.Of(&facts), NoLocalStorage: !*cfg.Kubelet.LocalStorageCapacityIsolation,
		MaxPods: int64(cfg.Kubelet.MaxPods), PodsPerCore: int64(cfg.Kubelet.PodsPerCore),
	}, nodestatus.SetMachine, nodestatus.SetAllocatable)
	return &machine{capacity: kubelet.Capacity(&facts), reserved: reserved, node: node}, reserved.Check(&facts, online)
}

// forPods returns the allocatable resources of the machine. The Node at the API server may differ.
func (m *machine) forPods() v1.ResourceList { return m.node.Status.Allocatable }

// localNode returns the Node of the configuration, with the labels of the system and of the flags,
// and with the taints of the registration.
func localNode(cfg *Config) *v1.Node {
	labels := map[string]string{v1.LabelOSStable: runtime.GOOS, v1.LabelArchStable: runtime.GOARCH, v1.LabelHostname: cfg.Flags.NodeName}
	maps.Copy(labels, cfg.Flags.NodeLabels)
	return &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: cfg.Flags.NodeName, Labels: labels}, Spec: v1.NodeSpec{Taints: cfg.Kubelet.RegisterWithTaints}}
}
