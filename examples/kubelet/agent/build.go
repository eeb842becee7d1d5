package agent

import (
	"context"
	"net/http"
	"path/filepath"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/cri/images"
	"github.com/podwright/podwright/cri/images/gc"
	"github.com/podwright/podwright/cri/images/records"
	"github.com/podwright/podwright/cri/logs"
	"github.com/podwright/podwright/cri/pods"
	"github.com/podwright/podwright/cri/podsyncer"
	"github.com/podwright/podwright/examples/kubelet/allocatable"
	"github.com/podwright/podwright/examples/kubelet/summary"
	"github.com/podwright/podwright/podworkers/stages"
	"github.com/podwright/podwright/status/checkpoint"
	"github.com/podwright/podwright/syncloop"
	"github.com/podwright/podwright/syncloop/admission"
	"github.com/podwright/podwright/syncloop/allocation"
	"github.com/podwright/podwright/syncloop/eviction"
)

// inputs are the parts that work without a runtime: the desired pods, the objects they reference,
// the machine, and the state of an earlier agent.
type inputs struct {
	cfg     *Config
	folders folders
	// dirty receives the pods that the loop must sync again.
	dirty      syncloop.Inbox
	changes    *objectChanges
	cluster    *cluster // nil without an API server
	sources    *sources
	recorder   recorder
	machine    *machine
	references references
	checkpoint *checkpoint.Store
	allocated  *allocation.Store
	actuated   actuated
	// allocatable returns the resources of the Node for pods.
	allocatable func() v1.ResourceList
	// disconnect closes the connection to the runtime, if there is one.
	disconnect func() error
	// stopReports ends the reports about the Node. It is nil without an API server, and before
	// runWith.
	stopReports func()
	// api is nil without a listener and before newAPI.
	api *api
}

// newInputs builds the parts in this order. runtime receives statuses of pods from the API server.
func newInputs(cfg *Config, runtime *connected) (_ *inputs, err error) {
	in := &inputs{cfg: cfg, folders: folders{root: cfg.Flags.RootDir}, changes: newObjectChanges(), sources: new(sources), disconnect: func() error { return nil }}
	if in.cluster, err = newCluster(cfg, in.changes, runtime); err != nil {
		return nil, err
	}
	in.recorder = newRecorder(cfg, in.sources.origin, in.cluster)
	if err = in.sources.open(cfg, in.folders, in.recorder, in.cluster); err != nil {
		return nil, err
	}
	if in.machine, err = newMachine(cfg); err != nil {
		return nil, err
	}
	in.allocatable = func() v1.ResourceList {
		if list := in.thisNode().Status.Allocatable; list != nil {
			return list
		}
		return in.machine.forPods() // a Node that an operator created has none yet
	}
	if in.references, err = newReferences(cfg, in.changes, in.cluster); err != nil {
		return nil, err
	}
	if in.checkpoint, err = checkpoint.New(checkpoint.Config{File: in.folders.status}); err != nil {
		return nil, err
	}
	if in.allocated, err = allocation.Open(filepath.Join(in.folders.root, allocation.AllocatedFile)); err != nil {
		return nil, err
	}
	in.actuated.Store, err = allocation.Open(filepath.Join(in.folders.root, allocation.ActuatedFile))
	return in, err
}

// thisNode returns the Node with its labels, from the API server if the agent has seen it there.
func (in *inputs) thisNode() *v1.Node {
	if seen := in.cluster.thisNode(); seen != nil {
		return seen
	}
	return in.machine.node
}

// node contains the parts that need a connection to the runtime.
type node struct {
	in   *inputs
	conn *Connection

	health  health
	records *records.Store
	images  *images.Manager
	rotator *logs.Rotator
	logs    *logs.Reader

	cgroups  *podCgroups           // nil if pods have no cgroups
	enforcer *allocatable.Enforcer // nil without cgroups
	users    *pods.UserNamespaces
	volumes  volumes
	stages   *stages.List

	lifecycle  *lifecycle
	fit        *admission.Fit
	allocation *allocation.Manager
	imageGC    *gc.Manager
	summary    *summary.Provider
	evictor    *eviction.Manager
	shutdown   *nodeShutdown // nil without ordered shutdown
	syncer     *podsyncer.Syncer

	sessions, commands http.Handler
}

// newNode builds the parts in this order. Each part depends on the inputs and on the parts above
// it. Calls upward go through lifecycle, whose methods need the syncer, or are
// events of the loop.
func newNode(ctx context.Context, in *inputs, conn *Connection) (_ *node, err error) {
	cfg := in.cfg
	countConnection(cfg.Metrics, conn)
	n := &node{in: in, conn: conn}

	// The runtime.
	if n.health, err = newHealth(cfg, conn, in.cluster); err != nil {
		return nil, err
	}
	if n.records, err = newRecords(cfg); err != nil {
		return nil, err
	}
	if n.images, err = newImages(cfg, conn, n.records, in.references, in.recorder); err != nil {
		return nil, err
	}
	if n.rotator, err = newRotator(cfg, conn); err != nil {
		return nil, err
	}
	if n.logs, err = logs.NewReader(logs.ReaderConfig{States: logs.RuntimeStates(conn.Runtime), Logger: cfg.Logger}); err != nil {
		return nil, err
	}

	// The resources of pods on the node.
	if n.cgroups, err = newCgroups(ctx, cfg, conn.driver, in.folders, in.recorder); err != nil {
		return nil, err
	}
	if n.enforcer, err = newEnforcer(cfg, in.machine, n.cgroups, in.recorder); err != nil {
		return nil, err
	}
	if err = n.newStages(ctx); err != nil {
		return nil, err
	}

	// The parts that act on pods.
	n.lifecycle = &lifecycle{cfg: cfg, recorder: in.recorder}
	if n.fit, err = n.lifecycle.newFit(in.allocatable); err != nil {
		return nil, err
	}
	if n.allocation, err = newAllocation(in, n.fit); err != nil {
		return nil, err
	}
	n.lifecycle.allocation = n.allocation
	if n.imageGC, err = newImageGC(cfg, conn, n.records, n.images, in.recorder, n.lifecycle); err != nil {
		return nil, err
	}
	if n.summary, err = newSummary(in, conn, n.cgroups, n.volumes, n.lifecycle); err != nil {
		return nil, err
	}
	if n.evictor, err = newEvictor(in, conn, n.lifecycle, n.summary, n.imageGC); err != nil {
		return nil, err
	}
	if n.shutdown, err = newShutdown(in, n.lifecycle, n.volumes); err != nil {
		return nil, err
	}
	if n.syncer, err = n.newSyncer(); err != nil {
		return nil, err
	}
	n.lifecycle.syncer = n.syncer

	// The kubelet API, and changes at the API server.
	if n.sessions, err = newSessions(cfg, conn.Runtime, n.syncer, n.logs); err != nil {
		return nil, err
	}
	n.commands = newCommands(cfg, commands{runtime: conn.Runtime, syncer: n.syncer, dir: filepath.Join(in.folders.root, "checkpoints")})
	in.cluster.onNode(n.volumes.manager.Wake)
	return n, nil
}
