package simulator

import (
	"context"
	"os"
	"path/filepath"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/cri"
	"github.com/podwright/podwright/cri/fake"
	"github.com/podwright/podwright/cri/images"
	"github.com/podwright/podwright/cri/pods"
	"github.com/podwright/podwright/cri/podsyncer"
	"github.com/podwright/podwright/probe"
	"github.com/podwright/podwright/probe/exec"
	"github.com/podwright/podwright/status/checkpoint"
	"github.com/podwright/podwright/syncloop"
	"github.com/podwright/podwright/syncloop/podsource"
)

// Node is a node with a runtime and, between Start and Stop, an agent.
type Node struct {
	// Runtime continues when the agent stops.
	Runtime *fake.Runtime
	// Syncer is the current agent.
	Syncer *podsyncer.Syncer

	dir    string
	merger *podsource.Merger
	pods   []*v1.Pod
	stop   context.CancelFunc
	ended  chan error
}

// NewNode returns a node without an agent. dir has the state that survives its agents. The
// program of a container is selected by its first argument or command.
func NewNode(dir string, programs map[string]fake.Program) (*Node, error) {
	if err := os.MkdirAll(filepath.Join(dir, "state"), 0o750); err != nil {
		return nil, err
	}
	runtime, err := fake.New(fake.Config{AnyImage: true, Programs: fake.ByCommand(programs, nil)})
	return &Node{Runtime: runtime, dir: dir}, err
}

// Start starts an agent, which takes over the running pods.
func (n *Node) Start(ctx context.Context) (err error) {
	pull, err := images.New(images.Config{Service: n.Runtime})
	if err != nil {
		return err
	}
	prober, err := exec.New(exec.Config{Runtime: n.Runtime})
	if err != nil {
		return err
	}
	saved, err := checkpoint.New(checkpoint.Config{File: func(uid types.UID) string { return filepath.Join(n.dir, "state", string(uid)) }})
	if err != nil {
		return err
	}
	if n.merger, err = podsource.NewMerger(podsource.MergerConfig{}); err != nil {
		return err
	}
	if n.Syncer, err = podsyncer.New(podsyncer.Config{
		Pods: pods.Config{
			Runtime: n.Runtime, RuntimeName: "fake", Owner: cri.Owner{Name: "simulator"}, Images: pull,
			LogRoot: filepath.Join(n.dir, "logs"),
		},
		Probes:     probe.Config{Probers: map[probe.Handler]probe.Prober{probe.Exec: prober}},
		Checkpoint: saved, Loop: syncloop.Config{Pods: n.merger},
	}); err != nil {
		return err
	}
	ctx, n.stop = context.WithCancel(ctx)
	n.ended = make(chan error, 1)
	go func() { n.ended <- n.Syncer.Run(ctx) }()
	return n.Set(n.pods)
}

// Stop stops the agent. The pods continue.
func (n *Node) Stop() error {
	n.stop()
	return <-n.ended
}

// Set replaces the desired pods of the node, also before Start.
func (n *Node) Set(desired []*v1.Pod) error {
	n.pods = desired
	if n.Syncer == nil {
		return nil
	}
	return n.merger.Set("simulator", desired, n.Syncer.Loop().Emit)
}
