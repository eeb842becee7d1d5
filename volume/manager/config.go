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
	// Plugins are those of the agent. Their names are not empty and not the same; a
	// volume that not exactly one of them supports is refused.
	Plugins []volume.Plugin
	// Layout says where volumes are. Its Root is an absolute path.
	Layout volume.Layout
	// Claims finds the volumes that pods claim. Nil means that pods with claims are
	// refused.
	Claims Claims
	// Attachments tells which volumes are attached to the node by somebody else. Nil
	// means that nobody does: volumes are staged at once.
	Attachments Attachments
	// Resizes says which volumes are to be expanded, and keeps the record of it that claims
	// have. Nil means that nobody does: what is larger than before is expanded.
	Resizes Resizes
	// SELinux is how the node labels files. Nil means that it has no SELinux.
	SELinux SELinux
	// SubPaths takes away what containers had of volumes before these are unmounted. Nil
	// means that nothing mounts sub paths.
	SubPaths SubPaths
	// Complete tells that all sources of pods were read, so that a volume which no pod
	// uses is one that no pod wants: it is unstaged. It is called often, without locks,
	// and answers from memory; Wake when it has become true. Required if a plugin is a
	// Stager.
	Complete func() bool

	// OperationTimeout bounds each operation: its context ends then. Zero means 2 min.
	OperationTimeout time.Duration
	// ShutdownTimeout is how long Run waits, when it ends, for operations that ignore
	// their context. Zero means 10 s.
	ShutdownTimeout time.Duration

	// OnReady is told when all volumes of a pod are mounted of which a Prepare had
	// returned while some were not. It is called without locks, from one goroutine, and
	// must not block. May be nil.
	OnReady func(uid types.UID)
	// Metrics are told what happens. All of them may be nil.
	Metrics Metrics
	// Event records Kubernetes events: that the content of a mounted volume cannot be
	// brought up to date (FailedMount), that a device is there (SuccessfulMountVolume),
	// how an expansion ended, on pod and claim, that it takes long to give a volume to a
	// group. What fails before a pod starts is the error of Prepare. May be nil.
	Event podwright.EventFunc
	// Logger receives failures. Nil means none.
	Logger *slog.Logger
}

// Claims finds the volume that a pod claims. Methods are called concurrently.
type Claims interface {
	// Resolve returns the spec of the PersistentVolume of a volume of a pod that names
	// a claim (persistentVolumeClaim or ephemeral). Package claims does that.
	Resolve(ctx context.Context, pod *v1.Pod, v v1.Volume) (*volume.Spec, error)
}

// Attachments knows which volumes are attached to the node. Methods are called
// concurrently.
type Attachments interface {
	// Attached returns the path of the device, which may be empty. That the volume is
	// not attached, or not yet, is an error; it is asked again with growing pauses, and
	// at once at Manager.Wake.
	Attached(ctx context.Context, id volume.ID, spec *volume.Spec) (devicePath string, err error)
}

// Resizes is asked before a node expands a volume, and told afterwards. Methods are called
// concurrently, for one volume one at a time.
type Resizes interface {
	// BeginResize tells whether a volume is to be expanded to its PersistentVolume's
	// capacity now, and how large it is as far as is known, in bytes. One that is too small
	// and is not to be expanded may be used as it is; it is asked about again after a pause.
	// Without an error and with expand, EndResize follows, unless the agent is killed.
	BeginResize(ctx context.Context, spec *volume.Spec) (size int64, expand bool, err error)
	// EndResize is told how the expansion has ended. Its error is that of the expansion,
	// which is tried again then.
	EndResize(ctx context.Context, spec *volume.Spec, err error) error
}

// SubPaths are the parts of volumes that were mounted for containers.
type SubPaths interface {
	// ReleasePod unmounts all of a pod, of this agent and of others, with their
	// folders. That there is none is no error.
	ReleasePod(ctx context.Context, uid types.UID) error
}

// SELinux knows how the node labels files.
type SELinux interface {
	// FileLabel is the label of files that a container with these options, which may be
	// nil, has to have to be used by it. Empty means that the runtime chooses a part of
	// the container's own label, so that nobody can tell before. It answers from memory.
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
