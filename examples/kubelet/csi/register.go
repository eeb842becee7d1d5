package csi

import (
	"context"
	"errors"
	"fmt"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/connectivity"
	"k8s.io/apimachinery/pkg/util/version"
	registration "k8s.io/kubelet/pkg/apis/pluginregistration/v1"

	"github.com/podwright/podwright/internal/run"
	volumecsi "github.com/podwright/podwright/volume/csi"
)

// Timeouts of the registration of a driver.
const (
	dialTimeout   = 10 * time.Second
	infoTimeout   = time.Second
	notifyTimeout = 5 * time.Second
	nodeTimeout   = 2 * time.Minute
)

type entry struct {
	name, socket string
	version      *version.Version
	client       *Client
	begun        time.Time
	ready        bool
	node         NodeInfo // valid if ready
	before       *entry   // the entry in use until this one is ready
}

// register requests the identity of the plugin at a socket, registers it and reports the result to
// it. For a plugin of another kind it blocks until ctx is done.
func (r *Registry) register(ctx context.Context, socket string) (*entry, error) {
	conn, err := dial(socket)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	if err := connect(ctx, conn); err != nil {
		return nil, err
	}
	plugin := registration.NewRegistrationClient(conn)
	info, err := getInfo(ctx, plugin)
	if err != nil {
		return nil, err
	}
	if info.Type != registration.CSIPlugin {
		r.cfg.Logger.Info("plugin ignored: it is not a CSI driver", "socket", socket, "type", info.Type)
		<-ctx.Done()
		return nil, run.EndOf(ctx)
	}
	e, err := r.add(ctx, socket, info)
	if notifyErr := notify(ctx, plugin, err); notifyErr != nil && err == nil {
		r.forget(e, true)
		return nil, notifyErr
	}
	if err != nil {
		return nil, err
	}
	r.cfg.Logger.Info("CSI driver registered", "driver", e.name, "socket", socket)
	r.cfg.OnReady(e.name)
	return e, nil
}

func connect(ctx context.Context, conn *grpc.ClientConn) error {
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	for conn.Connect(); ; {
		state := conn.GetState()
		if state == connectivity.Ready {
			return nil
		}
		if !conn.WaitForStateChange(ctx, state) {
			return fmt.Errorf("connect: %w", run.EndOf(ctx))
		}
	}
}

func getInfo(ctx context.Context, plugin registration.RegistrationClient) (*registration.PluginInfo, error) {
	ctx, cancel := context.WithTimeout(ctx, infoTimeout)
	defer cancel()
	info, err := plugin.GetInfo(ctx, &registration.InfoRequest{})
	if err != nil {
		return nil, fmt.Errorf("GetInfo: %w", err)
	}
	return info, nil
}

func notify(ctx context.Context, plugin registration.RegistrationClient, refused error) error {
	ctx, cancel := context.WithTimeout(ctx, notifyTimeout)
	defer cancel()
	status := &registration.RegistrationStatus{PluginRegistered: refused == nil}
	if refused != nil {
		status.Error = refused.Error()
	}
	if _, err := plugin.NotifyRegistrationStatus(ctx, status); err != nil {
		return fmt.Errorf("NotifyRegistrationStatus: %w", err)
	}
	return nil
}

// add registers a driver, unless the same or a higher version of it is registered.
func (r *Registry) add(ctx context.Context, socket string, info *registration.PluginInfo) (*entry, error) {
	e, err := newEntry(socket, info)
	if err != nil {
		return nil, err
	}
	if err := r.reserve(e); err != nil {
		_ = e.client.Close()
		return nil, err
	}
	if err := r.readNodeInfo(ctx, e); err != nil {
		r.forget(e, false)
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	e.ready, e.before = true, nil
	return e, nil
}

func newEntry(socket string, info *registration.PluginInfo) (*entry, error) {
	if err := volumecsi.CheckDriverName(info.Name); err != nil {
		return nil, err
	}
	e := &entry{name: info.Name, socket: socket, begun: time.Now()}
	for _, text := range info.SupportedVersions {
		v, err := version.ParseGeneric(text)
		if err != nil {
			return nil, fmt.Errorf("driver %s: supported version %q: %w", info.Name, text, err)
		}
		if v.Major() == 1 && (e.version == nil || e.version.LessThan(v)) {
			e.version = v
		}
	}
	if e.version == nil {
		return nil, fmt.Errorf("driver %s: supports only CSI versions %q; version 1 is required", info.Name, info.SupportedVersions)
	}
	endpoint := info.Endpoint
	if endpoint == "" {
		endpoint = socket
	}
	var err error
	e.client, err = Dial(endpoint)
	return e, err
}

func (r *Registry) reserve(e *entry) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	other := r.drivers[e.name]
	if other != nil && !other.version.LessThan(e.version) {
		return fmt.Errorf("driver %s: version %v is already registered by %s: only a version higher than %v can replace it",
			e.name, other.version, other.socket, e.version)
	}
	e.before, r.drivers[e.name] = other, e
	return nil
}

// readNodeInfo calls NodeGetInfo of a driver and stores the result.
func (r *Registry) readNodeInfo(ctx context.Context, e *entry) error {
	ctx, cancel := context.WithTimeout(ctx, nodeTimeout)
	defer cancel()
	begun := time.Now()
	node, err := e.client.NodeInfo(ctx)
	r.cfg.Metrics.OnCall(volumecsi.Call{Driver: e.name, Method: "NodeGetInfo", Took: time.Since(begun), Err: err})
	if err != nil {
		return fmt.Errorf("NodeGetInfo: %w", err)
	}
	if node.NodeID == "" {
		return errors.New("NodeGetInfo: the node's ID is empty")
	}
	e.node = node
	return nil
}

// forget removes a driver. With notify it calls OnDeregistered unless another entry has its name.
func (r *Registry) forget(e *entry, notify bool) {
	r.mu.Lock()
	last := false
	if r.drivers[e.name] == e {
		if r.drivers[e.name] = e.before; e.before == nil {
			delete(r.drivers, e.name)
			last = true
		}
	}
	for other := r.drivers[e.name]; other != nil; other = other.before {
		if other.before == e {
			other.before = e.before
		}
	}
	r.mu.Unlock()
	_ = e.client.Close()
	if last && notify {
		r.cfg.Logger.Info("CSI driver removed", "driver", e.name, "socket", e.socket)
		_ = run.Guard("OnDeregistered", func() error { r.cfg.OnDeregistered(e.name); return nil })
	}
}
