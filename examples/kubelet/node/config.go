package node

import (
	"context"
	"log/slog"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright"
	"github.com/podwright/podwright/internal/fields"
	nodestatus "github.com/podwright/podwright/status/node"
)

// Config configures a Node. Name, Nodes, Leases and Facts are required. The functions are
// called from Run's goroutines, one at a time each; those without a context must not block.
type Config struct {
	// Name is the node's. Hostname is the value of its label of that name
	// and of its address; "" means Name.
	Name, Hostname string
	// Labels (--node-labels; see ParseLabels) and Taints (--register-with-taints; see
	// ParseTaints) are given to the node when it is made. Those labels that have a meaning
	// to Kubernetes are put right later too.
	Labels map[string]string
	Taints []v1.Taint
	// ProviderID is what a cloud calls the machine (--provider-id); it is set when the
	// node is made.
	ProviderID string
	// Addressing says how the addresses are found. Its Name and Hostname are filled in.
	Addressing Addressing
	// NoRegister: somebody else makes the node (registerNode: false).
	NoRegister bool
	// ControllerAttach: volumes are attached by a controller (enableControllerAttachDetach).
	ControllerAttach bool
	// ResetExtended tells whether resources of plugins that a node has from before are set
	// to zero: nobody knows of them any more, as after the machine was set up anew.
	ResetExtended bool

	// Update and Report are nodeStatusUpdateFrequency and nodeStatusReportFrequency; see
	// status/node's Timing. Zero means 10 s and 5 min.
	Update, Report time.Duration
	// LeaseDuration is how long the node counts as alive after a renewal
	// (nodeLeaseDurationSeconds). The Lease is renewed in a quarter of it. Zero means 40 s.
	LeaseDuration time.Duration
	// CallTimeout is the deadline of one call of a client. Zero means the smaller one of
	// Update and LeaseDuration.
	CallTimeout time.Duration
	// ShutdownTimeout is how long Run waits at its end for calls that ignore their
	// context. Zero means 10 s.
	ShutdownTimeout time.Duration

	// Nodes and Leases are the API. Required.
	Nodes  NodeClient
	Leases LeaseClient
	// Cached is the node as a watch has seen it last, nil if it has seen none. It saves a
	// read per round. It may lag behind. May be nil.
	Cached func() *v1.Node
	// Facts are what is known of the machine now: see Gatherer. Now and Addresses are
	// filled in. Required.
	Facts func(ctx context.Context) nodestatus.Facts
	// NotReady are more reasons why the node is not ready. It must be cheap: it is asked
	// every second, and ten times a second until the node has become ready once. What it
	// says of readiness is written at once. May be nil.
	NotReady func() []string

	// OnNode is told of the node as the API has it, after each round that has succeeded,
	// whether anything was written or not: its volumes in use are known to controllers
	// then. It is shared and must not be changed. May be nil.
	OnNode func(*v1.Node)
	// OnRegister is told before each try to register the node. May be nil.
	OnRegister func()
	// OnRepeatedFailure is told that a call has failed again: connections that hang had
	// better be closed. May be nil.
	OnRepeatedFailure func()
	// Event receives events about the node. May be nil.
	Event podwright.EventFunc
	// Logger receives what happens. nil means none.
	Logger *slog.Logger
}

func (c Config) withDefaults() (Config, error) {
	f := fields.Of("node: Config")
	f.Required("Name", c.Name)
	f.Required("Nodes", c.Nodes)
	f.Required("Leases", c.Leases)
	f.Required("Facts", c.Facts)
	fields.Number(f, "Update", &c.Update, 0)
	fields.Number(f, "Report", &c.Report, 0)
	fields.Number(f, "LeaseDuration", &c.LeaseDuration, 40*time.Second)
	fields.Number(f, "ShutdownTimeout", &c.ShutdownTimeout, 10*time.Second)
	if c.LeaseDuration%time.Second != 0 {
		f.Refuse("LeaseDuration: %v is not whole seconds", c.LeaseDuration)
	}
	if err := CheckLabels(c.Labels); err != nil {
		f.Refuse("Labels: %w", err)
	}
	if err := CheckTaints("Taints", c.Taints); err != nil {
		f.Refuse("%w", err)
	}
	if err := f.Err(); err != nil {
		return c, err
	}
	timing, err := nodestatus.Timing{Name: c.Name, Update: c.Update, Report: c.Report}.WithDefaults()
	if err != nil {
		return c, err
	}
	c.Update, c.Report = timing.Update, timing.Report
	fields.Number(f, "CallTimeout", &c.CallTimeout, min(c.Update, c.LeaseDuration))
	fields.Default(&c.Hostname, c.Name)
	c.Addressing.Name, c.Addressing.Hostname = c.Name, c.Hostname
	fields.Default(&c.Cached, func() *v1.Node { return nil })
	fields.Default(&c.NotReady, func() []string { return nil })
	fields.Default(&c.OnRegister, func() {})
	fields.Default(&c.OnNode, func(*v1.Node) {})
	fields.Default(&c.OnRepeatedFailure, func() {})
	fields.Default(&c.Event, func(v1.ObjectReference, string, string, string) {})
	fields.Logger(&c.Logger)
	return c, f.Err()
}
