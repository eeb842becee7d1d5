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

// Config configures a Node. Name, Nodes, Leases and Facts are required. Run's goroutines call each
// function one call at a time. Functions without a context must not block.
type Config struct {
	// Name is the node's name. Hostname is the value of its hostname label and address. Default:
	// Name.
	Name, Hostname string
	// Labels (--node-labels; see ParseLabels) and Taints (--register-with-taints; see ParseTaints)
	// are set when the node is created. Labels with a meaning to Kubernetes are also corrected
	// later.
	Labels map[string]string
	Taints []v1.Taint
	// ProviderID is the cloud's ID of the machine (--provider-id). It is set when the node is
	// created.
	ProviderID string
	// Addressing determines the addresses. New sets its Name and Hostname.
	Addressing Addressing
	// NoRegister leaves the creation of the node to another component (registerNode: false).
	NoRegister bool
	// ControllerAttach states that a controller attaches volumes (enableControllerAttachDetach).
	ControllerAttach bool
	// ResetExtended sets an existing node's resources of plugins to zero, because the plugins may
	// not be installed any longer, as after a new setup of the machine.
	ResetExtended bool

	// Update and Report are nodeStatusUpdateFrequency and nodeStatusReportFrequency; see
	// status/node's Timing. Defaults: 10 s and 5 min.
	Update, Report time.Duration
	// LeaseDuration is the time for which the node counts as alive after a renewal
	// (nodeLeaseDurationSeconds). The Lease is renewed after a quarter of it. Default: 40 s.
	LeaseDuration time.Duration
	// CallTimeout bounds one call of a client. Default: the smaller of Update and LeaseDuration.
	CallTimeout time.Duration
	// ShutdownTimeout bounds Run's wait at its end for calls that ignore their context. Default: 10
	// s.
	ShutdownTimeout time.Duration

	// Nodes and Leases are the clients of the API. Required.
	Nodes  NodeClient
	Leases LeaseClient
	// Cached returns the node as last seen by a watch, or nil. It saves a read per round. It may
	// lag behind. Optional.
	Cached func() *v1.Node
	// Facts returns the current facts of the machine; see Gatherer. Now and Addresses are set by
	// the Node. Required.
	Facts func(ctx context.Context) nodestatus.Facts
	// NotReady returns further reasons why the node is not ready. It must be cheap: it is called
	// every second, and ten times a second until the node is ready for the first time. A change of
	// readiness is written at once. Optional.
	NotReady func() []string

	// Look reads every input of Facts and NotReady anew, and returns an error while one cannot be
	// read. Run calls it before the first status, after the process or the machine was suspended,
	// and before a status that ends the node's readiness. At a start and after a suspension it is
	// repeated for 10 s. Optional.
	Look func(ctx context.Context) error

	// OnNode is called after each successful round with the API's version of the node, even if the
	// round wrote nothing: controllers then know the volumes in use. It must not change the node.
	// Optional.
	OnNode func(*v1.Node)
	// OnRegister is called before each attempt to register the node. Optional.
	OnRegister func()
	// OnRepeatedFailure is called when a call has failed repeatedly, so that hanging connections
	// can be closed. Optional.
	OnRepeatedFailure func()
	// Event receives events about the node. Optional.
	Event podwright.EventFunc
	// Logger receives the log. Default: discard.
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
	fields.Default(&c.Look, func(context.Context) error { return nil })
	fields.Default(&c.OnRegister, func() {})
	fields.Default(&c.OnNode, func(*v1.Node) {})
	fields.Default(&c.OnRepeatedFailure, func() {})
	fields.Default(&c.Event, func(v1.ObjectReference, string, string, string) {})
	fields.Logger(&c.Logger)
	return c, f.Err()
}
