package cri

import (
	"context"
	"errors"
	"fmt"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/internal/run"
)

// The names of the cgroup drivers.
const (
	CgroupDriverCgroupfs = "cgroupfs"
	CgroupDriverSystemd  = "systemd"
)

const (
	cgroupDriverTries = 3
	cgroupDriverPause = 2 * time.Second
)

// ErrUnknownCgroupDriver is wrapped by the error for a runtime with an unsupported cgroup driver.
// Retrying does not help.
var ErrUnknownCgroupDriver = errors.New("the runtime has an unknown cgroup driver")

// CgroupDriver returns the runtime's cgroup driver, or configured if the runtime reports none.
// supported is true if the runtime implements RuntimeConfig (containerd 1.6 does not). An empty
// configured selects cgroupfs. CgroupDriver tries up to three times, 2 s apart.
func CgroupDriver(ctx context.Context, runtime RuntimeInfo, configured string) (driver string, supported bool, err error) {
	switch configured {
	case "":
		configured = CgroupDriverCgroupfs
	case CgroupDriverCgroupfs, CgroupDriverSystemd:
	default:
		return "", false, fmt.Errorf("cgroup driver %q is neither %q nor %q", configured, CgroupDriverCgroupfs, CgroupDriverSystemd)
	}
	var reply *runtimeapi.RuntimeConfigResponse
	for try := range cgroupDriverTries {
		if try > 0 && !run.Sleep(ctx, cgroupDriverPause) {
			return "", false, fmt.Errorf("cgroup driver: %w, last reply: %w", ctx.Err(), err)
		}
		reply, err = runtime.RuntimeConfig(ctx)
		if err == nil || IsUnimplemented(err) {
			supported = err == nil
			driver, err = chooseCgroupDriver(reply, configured)
			return driver, supported && err == nil, err
		}
		if ctx.Err() != nil {
			break
		}
	}
	return "", false, fmt.Errorf("cgroup driver: %w", err)
}

// chooseCgroupDriver prefers the runtime's driver to the configured one: with two different
// drivers, agent and runtime would not find each other's cgroups.
func chooseCgroupDriver(reply *runtimeapi.RuntimeConfigResponse, configured string) (string, error) {
	if reply.GetLinux() == nil {
		return configured, nil
	}
	switch driver := reply.GetLinux().GetCgroupDriver(); driver {
	case runtimeapi.CgroupDriver_SYSTEMD:
		return CgroupDriverSystemd, nil
	case runtimeapi.CgroupDriver_CGROUPFS:
		return CgroupDriverCgroupfs, nil
	default:
		return "", fmt.Errorf("%w: %s", ErrUnknownCgroupDriver, driver)
	}
}
