package cri

import (
	"context"
	"errors"
	"fmt"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/internal/run"
)

// The cgroup drivers.
const (
	CgroupDriverCgroupfs = "cgroupfs"
	CgroupDriverSystemd  = "systemd"
)

const (
	cgroupDriverTries = 3
	cgroupDriverPause = 2 * time.Second
)

// ErrUnknownCgroupDriver is wrapped by the error about a runtime that has a cgroup driver of
// which nothing is known here. To ask again does not help.
var ErrUnknownCgroupDriver = errors.New("the runtime has an unknown cgroup driver")

// CgroupDriver returns the cgroup driver to use: the runtime's, or configured if
// the runtime does not say; supported tells whether it has the call (containerd 1.6
// does not). An empty configured means cgroupfs. It asks up to three times, two seconds
// apart, and stops at the first answer.
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
			return "", false, fmt.Errorf("cgroup driver: %w, last answer: %w", ctx.Err(), err)
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

// chooseCgroupDriver prefers what the runtime says, if it says anything: two that make
// cgroups in different ways would not find each other's.
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
