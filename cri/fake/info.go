package fake

import (
	"context"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// kubeAPIVersion is the version in Version requests and replies.
const kubeAPIVersion = "0.1.0"

func cgroupDriver(name string) (driver runtimeapi.CgroupDriver, ok bool) {
	switch name {
	case "cgroupfs":
		return runtimeapi.CgroupDriver_CGROUPFS, true
	case "systemd":
		return runtimeapi.CgroupDriver_SYSTEMD, true
	}
	return 0, false
}

type condition struct {
	kind            string
	ok              bool
	reason, message string
}

func readyConditions() [2]condition {
	return [2]condition{{kind: runtimeapi.RuntimeReady, ok: true}, {kind: runtimeapi.NetworkReady, ok: true}}
}

// Version returns the name and the versions of the runtime.
func (rt *Runtime) Version(ctx context.Context) (*runtimeapi.VersionResponse, error) {
	if err := rt.enter(ctx, "Version", &runtimeapi.VersionRequest{Version: kubeAPIVersion}); err != nil {
		return nil, err
	}
	return &runtimeapi.VersionResponse{
		Version: kubeAPIVersion, RuntimeName: rt.cfg.Name,
		RuntimeVersion: rt.cfg.RuntimeVersion, RuntimeApiVersion: "v1",
	}, nil
}

// Status returns both conditions, true unless SetCondition changed them, the handlers and the
// features.
func (rt *Runtime) Status(ctx context.Context, verbose bool) (*runtimeapi.StatusResponse, error) {
	if err := rt.enter(ctx, "Status", &runtimeapi.StatusRequest{Verbose: verbose}); err != nil {
		return nil, err
	}
	rt.mu.RLock()
	defer rt.mu.RUnlock()
	response := &runtimeapi.StatusResponse{
		Status:          &runtimeapi.RuntimeStatus{},
		RuntimeHandlers: []*runtimeapi.RuntimeHandler{{Features: &runtimeapi.RuntimeHandlerFeatures{}}},
		Features:        &runtimeapi.RuntimeFeatures{},
	}
	for _, c := range rt.conditions {
		response.Status.Conditions = append(response.Status.Conditions, &runtimeapi.RuntimeCondition{
			Type: c.kind, Status: c.ok, Reason: c.reason, Message: c.message,
		})
	}
	for _, name := range rt.cfg.Handlers {
		response.RuntimeHandlers = append(response.RuntimeHandlers, &runtimeapi.RuntimeHandler{
			Name: name, Features: &runtimeapi.RuntimeHandlerFeatures{},
		})
	}
	if !verbose {
		return response, nil
	}
	var err error
	response.Info, err = info(map[string]any{
		"sandboxes": len(rt.store.sandboxes), "containers": len(rt.store.containers),
	})
	return response, err
}

// SetCondition sets the condition runtimeapi.RuntimeReady or runtimeapi.NetworkReady of Status. It
// has no other effect. For other kinds it returns an error with code InvalidArgument.
func (rt *Runtime) SetCondition(kind string, ok bool, reason, message string) error {
	rt.mu.Lock()
	defer rt.mu.Unlock()
	for i := range rt.conditions {
		if rt.conditions[i].kind == kind {
			rt.conditions[i] = condition{kind: kind, ok: ok, reason: reason, message: message}
			return nil
		}
	}
	return status.Errorf(codes.InvalidArgument, "unknown condition %q", kind)
}

// RuntimeConfig returns the cgroup driver.
func (rt *Runtime) RuntimeConfig(ctx context.Context) (*runtimeapi.RuntimeConfigResponse, error) {
	if err := rt.enter(ctx, "RuntimeConfig", &runtimeapi.RuntimeConfigRequest{}); err != nil {
		return nil, err
	}
	driver, _ := cgroupDriver(rt.cfg.CgroupDriver)
	return &runtimeapi.RuntimeConfigResponse{
		Linux: &runtimeapi.LinuxRuntimeConfiguration{CgroupDriver: driver},
	}, nil
}

// UpdateRuntimeConfig sets the pod CIDRs for sandboxes that start later.
func (rt *Runtime) UpdateRuntimeConfig(ctx context.Context, config *runtimeapi.RuntimeConfig) error {
	request := &runtimeapi.UpdateRuntimeConfigRequest{RuntimeConfig: config}
	if err := rt.enter(ctx, "UpdateRuntimeConfig", request); err != nil {
		return err
	}
	cidr := config.GetNetworkConfig().GetPodCidr()
	if cidr == "" {
		return nil
	}
	ranges, err := parseRanges(cidr)
	if err != nil {
		return status.Errorf(codes.InvalidArgument, "pod CIDR: %v", err)
	}
	rt.mu.Lock()
	defer rt.mu.Unlock()
	rt.addresses.setRanges(ranges)
	return nil
}
