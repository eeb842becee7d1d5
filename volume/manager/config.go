package manager

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright"
	"github.com/podwright/podwright/internal/fields"
	"github.com/podwright/podwright/internal/fs"
	"github.com/podwright/podwright/volume"
)

// Config configures a Manager. Plugins and Layout are required.
type Config struct {
	// Plugins are the volume plugins of the agent. Their names must be distinct and not empty.
	// Exactly one of them must support a volume; other volumes fail.
	Plugins []volume.Plugin
	// Layout maps volumes to paths. Its Root must be absolute.
	Layout volume.Layout
	// Claims resolves the claims of pods. Optional: without it volumes with claims fail.
	Claims Claims
	// Attachments reports which volumes a controller has attached to the node. Optional:
	// without it volumes are staged at once.
	Attachments Attachments
	// Resizes decides which volumes are expanded, and records the expansions in their claims.
	// Optional: without it each volume whose capacity has grown is expanded.
	Resizes Resizes
	// SELinux returns the labels of files. Optional: without it the node counts as one without
	// SELinux.
	SELinux SELinux
	// SubPaths unmounts the sub paths of containers before their volumes are unmounted.
	// Optional: without it there are none.
	SubPaths SubPaths
	// Complete reports whether all sources of pods were read. Shared volumes without a pod are
	// unstaged only if it returns true. It is called often and without locks, and must not
	// block. Call Wake when its result becomes true. Required if a plugin is a Stager.
	Complete func() bool

	// OperationTimeout bounds the context of each operation. Default: 2 min.
	OperationTimeout time.Duration
	// ShutdownTimeout bounds the wait of Run, at its end, for operations that ignore their
	// context. Default: 10 s.
	ShutdownTimeout time.Duration

	// OnReady is called when all volumes of a pod are mounted after a Prepare returned a
	// NotReadyError. It is called without locks, one call at a time, and must not block.
	// Optional.
	OnReady func(uid types.UID)
	// Metrics are callbacks for metrics. Each is optional.
	Metrics Metrics
	// Event records Kubernetes events about pods: a failed refresh of a mounted volume
	// (FailedMount), a mounted device (SuccessfulMountVolume), the result of an expansion (also
	// about the claim), a long change of ownership, and a sub path without a file
	// (SubPathNotFound). Failures before a pod starts are errors of Prepare instead. Optional.
	Event podwright.EventFunc
	// Logger receives failures. Optional: without it they are discarded.
	Logger *slog.Logger
}

// Claims resolves the claims of pods. Methods are called concurrently.
type Claims interface {
	// Resolve returns the spec of the PersistentVolume for a pod's volume with a claim
	// (persistentVolumeClaim or ephemeral). Package claims implements it.
	Resolve(ctx context.Context, pod *v1.Pod, v v1.Volume) (*volume.Spec, error)
}

// Attachments reports which volumes are attached to the node. Methods are called concurrently.
type Attachments interface {
	// Attached returns the path of the attached device, which may be empty. It returns an error
	// for a volume that is not attached. It is then called again with back-off, and immediately
	// after Manager.Wake.
	Attached(ctx context.Context, id volume.ID, spec *volume.Spec) (devicePath string, err error)
}

// Resizes decides about the expansion of volumes and records the results. Methods are called
// concurrently, but one at a time per volume.
type Resizes interface {
	// BeginResize reports whether to expand a volume now to the capacity of its
	// PersistentVolume, and returns the recorded size in bytes. If the size is too small and
	// expand is false, the volume may be used as it is, and BeginResize is called again with
	// back-off. If expand is true and err is nil, EndResize follows, unless the agent is
	// killed.
	BeginResize(ctx context.Context, spec *volume.Spec) (size int64, expand bool, err error)
	// EndResize records the result of the expansion. If it returns an error, the expansion
	// counts as failed and is retried.
	EndResize(ctx context.Context, spec *volume.Spec, err error) error
}

// SubPaths unmounts the sub paths of containers.
type SubPaths interface {
	// ReleasePod unmounts all sub paths of a pod, also those of other agents, and removes their
	// folders. A pod without sub paths is no error.
	ReleasePod(ctx context.Context, uid types.UID) error
}

// SELinux returns the labels of files on the node.
type SELinux interface {
	// FileLabel returns the label of files that a container with these options can use. o may
	// be nil. An empty label means that the runtime chooses a part of the container's label, so
	// that it is unknown in advance. FileLabel must not block.
	FileLabel(o *v1.SELinuxOptions) (string, error)
}

func (c Config) withDefaults() (Config, error) {
	f := fields.Of("manager: Config")
	if len(c.Plugins) == 0 {
		f.Refuse("Plugins is required")
	}
	fields.Number(f, "OperationTimeout", &c.OperationTimeout, 2*time.Minute)
	fields.Number(f, "ShutdownTimeout", &c.ShutdownTimeout, 10*time.Second)
	c.checkPlugins(f)
	fields.Default(&c.Complete, func() bool { return true })
	fields.Default(&c.OnReady, func(types.UID) {})
	fields.Default(&c.Metrics.OnOperation, func(Operation) {})
	fields.Default(&c.Metrics.OnReady, func(string, time.Duration) {})
	fields.Default(&c.Metrics.OnFound, func(string, bool) {})
	fields.Default(&c.Event, func(v1.ObjectReference, string, string, string) {})
	fields.Logger(&c.Logger)
	return c, errors.Join(c.Layout.Check("manager: Config.Layout"), f.Err())
}

func (c *Config) checkPlugins(f *fields.Check) {
	names := map[string]bool{}
	for i, p := range c.Plugins {
		field := fmt.Sprintf("Plugins[%d]", i)
		if fields.Required(field, p) != nil {
			f.Required(field, p)
			continue
		}
		if err := fs.CheckName("the plugin's name", volume.Escape(p.Name())); err != nil {
			f.Refuse("%s: %v", field, err)
		}
		if names[p.Name()] {
			f.Refuse("%s: %q is in the list already", field, p.Name())
		}
		names[p.Name()] = true
		if _, ok := p.(volume.Stager); ok && c.Complete == nil {
			f.Refuse("Complete is required: pods share volumes of %s", p.Name())
		}
	}
}
