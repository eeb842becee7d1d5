package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	v1 "k8s.io/api/core/v1"

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
	Event func(ref v1.ObjectReference, eventtype, reason, message string)
	// Logger receives what happens. nil means none.
	Logger *slog.Logger
}

func (c Config) withDefaults() (Config, error) {
	if err := c.check(); err != nil {
		return c, err
	}
	timing, err := nodestatus.Timing{Name: c.Name, Update: c.Update, Report: c.Report}.WithDefaults()
	if err != nil {
		return c, err
	}
	c.Update, c.Report = timing.Update, timing.Report
	if c.LeaseDuration == 0 {
		c.LeaseDuration = 40 * time.Second
	}
	if c.CallTimeout == 0 {
		c.CallTimeout = min(c.Update, c.LeaseDuration)
	}
	if c.ShutdownTimeout == 0 {
		c.ShutdownTimeout = 10 * time.Second
	}
	if c.Hostname == "" {
		c.Hostname = c.Name
	}
	c.Addressing.Name, c.Addressing.Hostname = c.Name, c.Hostname
	if c.Cached == nil {
		c.Cached = func() *v1.Node { return nil }
	}
	if c.NotReady == nil {
		c.NotReady = func() []string { return nil }
	}
	if c.OnRegister == nil {
		c.OnRegister = func() {}
	}
	if c.OnNode == nil {
		c.OnNode = func(*v1.Node) {}
	}
	if c.OnRepeatedFailure == nil {
		c.OnRepeatedFailure = func() {}
	}
	if c.Event == nil {
		c.Event = func(v1.ObjectReference, string, string, string) {}
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c, nil
}

func (c *Config) check() error {
	if c.Name == "" {
		return errors.New("node: Config.Name is required")
	}
	for _, f := range []struct {
		name  string
		value any
	}{{"Nodes", c.Nodes}, {"Leases", c.Leases}, {"Facts", c.Facts}} {
		if err := fields.Required("node: Config."+f.name, f.value); err != nil {
			return err
		}
	}
	for _, d := range []struct {
		name  string
		value time.Duration
	}{{"Update", c.Update}, {"Report", c.Report}, {"LeaseDuration", c.LeaseDuration}, {"CallTimeout", c.CallTimeout}, {"ShutdownTimeout", c.ShutdownTimeout}} {
		if d.value < 0 {
			return fmt.Errorf("node: Config.%s is negative: %v", d.name, d.value)
		}
	}
	if c.LeaseDuration%time.Second != 0 {
		return fmt.Errorf("node: Config.LeaseDuration: %v is not whole seconds", c.LeaseDuration)
	}
	if err := CheckLabels(c.Labels); err != nil {
		return fmt.Errorf("node: Config.Labels: %w", err)
	}
	if err := CheckTaints("Config.Taints", c.Taints); err != nil {
		return fmt.Errorf("node: %w", err)
	}
	return nil
}
