package csi

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"github.com/podwright/podwright/internal/fields"
	"github.com/podwright/podwright/internal/fs"
	"github.com/podwright/podwright/internal/run"
	"github.com/podwright/podwright/volume"
	"github.com/podwright/podwright/volume/mounts"
	"github.com/podwright/podwright/volume/objects"
)

// Name is the plugin's name.
const Name = "kubernetes.io/csi"

// Config configures a Plugin. Layout, NodeName and Drivers are required.
type Config struct {
	// Layout says where things are. Its Root is an absolute path.
	Layout volume.Layout
	// NodeName is the name of the Node.
	NodeName string
	// Drivers are those of the node.
	Drivers Drivers
	// CSIDrivers gets the objects that describe drivers. Nil means that there are none:
	// every driver is as one without an object.
	CSIDrivers objects.CSIDrivers
	// Secrets gets the secrets that volumes name. Nil means that these volumes fail.
	Secrets objects.Secrets
	// Tokens gets the tokens that drivers ask for; an objects.TokenCache keeps them. Nil
	// means that volumes of these drivers fail.
	Tokens objects.Tokens
	// Attachments gets what the controller's side of a driver has to say. Nil means that
	// it says nothing.
	Attachments Attachments
	// Mounts unmounts a volume whose vol_data.json cannot be read; nil means those of
	// this node's kernel.
	Mounts mounts.Mounter
	// SELinux tells that the node has SELinux: of each volume that is not mounted with a
	// label it is looked up whether its files can have labels (volume.Mounted.Relabel).
	SELinux bool
	// CallTimeout bounds each call of a driver; zero means 2 min.
	CallTimeout time.Duration
	// Metrics are told what happens.
	Metrics Metrics
	// Logger is told what could not be done and harms nobody; nil means that nobody is.
	Logger *slog.Logger
}

// Metrics is told of calls. Callbacks are called concurrently, and must not block. All
// may be nil.
type Metrics struct {
	// OnCall is told of the end of each call of a driver. It is upstream's
	// csi_operations_seconds.
	OnCall func(Call)
}

// Call is a call of a driver that has ended.
type Call struct {
	// Driver is the driver's name, Method that of CSI, as "NodePublishVolume".
	Driver, Method string
	// Took is how long the call took.
	Took time.Duration
	// Err is how it failed; nil means that it did not.
	Err error
}

// Attachments gets the metadata of VolumeAttachments. Methods are called concurrently.
type Attachments interface {
	// PublishContext returns status.attachmentMetadata of a VolumeAttachment.
	PublishContext(ctx context.Context, attachment string) (map[string]string, error)
}

// Plugin is the volume.Plugin for CSI volumes. Use New. It is safe for concurrent use.
type Plugin struct {
	cfg   Config
	calls run.Calls
}

var (
	_ volume.Plugin     = (*Plugin)(nil)
	_ volume.Stager     = (*Plugin)(nil)
	_ volume.Owner      = (*Plugin)(nil)
	_ volume.Attachable = (*Plugin)(nil)
	_ volume.Expander   = (*Plugin)(nil)
	_ volume.Remounter  = (*Plugin)(nil)
	_ volume.Dependent  = (*Plugin)(nil)

	_ volume.LabelMounter = (*Plugin)(nil)
)

// New checks the configuration.
func New(cfg Config) (*Plugin, error) {
	f := fields.Of("csi: Config")
	f.Required("NodeName", cfg.NodeName)
	f.Required("Drivers", cfg.Drivers)
	fields.Number(f, "CallTimeout", &cfg.CallTimeout, 2*time.Minute)
	if err := errors.Join(cfg.Layout.Check("csi: Config.Layout"), f.Err()); err != nil {
		return nil, err
	}
	fields.Default[mounts.Mounter](&cfg.Mounts, &mounts.Kernel{})
	fields.Default(&cfg.Metrics.OnCall, func(Call) {})
	fields.Logger(&cfg.Logger)
	return &Plugin{cfg: cfg}, nil
}

// Name implements volume.Plugin.
func (p *Plugin) Name() string { return Name }

// Supports implements volume.Plugin.
func (p *Plugin) Supports(spec *volume.Spec) bool {
	if spec.Persistent != nil {
		return spec.Persistent.Spec.CSI != nil
	}
	return spec.Inline.CSI != nil
}

// Remounts implements volume.Remounter: the driver asks for it with requiresRepublish.
func (p *Plugin) Remounts(spec *volume.Spec) bool {
	o, err := p.object(driverOf(spec))
	return err == nil && is(o.RequiresRepublish)
}

// Objects implements volume.Dependent: a volume that could not be mounted is tried again
// when one of them comes. One that is mounted is published again if its driver asks for
// that, and otherwise stays as it is: see Remounts.
func (p *Plugin) Objects(pod *v1.Pod, spec *volume.Spec) []volume.Object {
	out := []volume.Object{
		{Kind: objects.KindCSIDriver, Name: driverOf(spec)},
		{Kind: objects.KindServiceAccount, Namespace: pod.Namespace, Name: objects.Account(pod.Spec.ServiceAccountName)},
	}
	for _, ref := range []*v1.SecretReference{publishSecret(pod, spec), stageSecret(spec), expandSecret(spec)} {
		if ref != nil {
			out = append(out, volume.Object{Kind: objects.KindSecret, Namespace: ref.Namespace, Name: ref.Name})
		}
	}
	return out
}

// MountsLabel implements volume.LabelMounter: the driver says so with seLinuxMount.
func (p *Plugin) MountsLabel(spec *volume.Spec) (bool, error) {
	o, err := p.object(driverOf(spec))
	return err == nil && is(o.SELinuxMount), err
}

// Attaches implements volume.Attachable: it is so if the driver does not say otherwise
// with attachRequired.
func (p *Plugin) Attaches(_ context.Context, spec *volume.Spec) (bool, error) {
	if spec.Persistent == nil {
		return false, nil
	}
	o, err := p.object(driverOf(spec))
	return err == nil && attaches(o), err
}

func attaches(o *storagev1.CSIDriverSpec) bool {
	return o.AttachRequired == nil || *o.AttachRequired
}

func is(b *bool) bool { return b != nil && *b }

// object is what is said about a driver. Nothing is no error.
func (p *Plugin) object(driver string) (*storagev1.CSIDriverSpec, error) {
	if p.cfg.CSIDrivers == nil {
		return &storagev1.CSIDriverSpec{}, nil
	}
	o, err := p.cfg.CSIDrivers.CSIDriver(driver)
	switch {
	case err != nil && !objects.IsNotFound(err):
		return nil, fmt.Errorf("CSIDriver %s: %w", driver, err)
	case o == nil || err != nil:
		return &storagev1.CSIDriverSpec{}, nil
	}
	return &o.Spec, nil
}

// driver finds a driver. That it is not there may change at any time.
func (p *Plugin) driver(name string) (Driver, error) {
	if d := p.cfg.Drivers.Driver(name); d != nil {
		return d, nil
	}
	more := ""
	if a, ok := p.cfg.Drivers.(Absences); ok {
		if more = a.Absence(name); more != "" {
			more = ": " + more
		}
	}
	return nil, volume.Transient(fmt.Errorf("csi: driver %q is not registered on this node%s", name, more))
}

// capabilities asks a driver what it can do.
func (p *Plugin) capabilities(ctx context.Context, name string, d Driver) (c Capabilities, err error) {
	err = p.call(ctx, name, "NodeGetCapabilities", func(ctx context.Context) (err error) {
		c, err = d.Capabilities(ctx)
		return err
	})
	return c, volume.Transient(err)
}

// call bounds a call of a driver, and tells of it.
func (p *Plugin) call(ctx context.Context, driver, method string, f func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, p.cfg.CallTimeout)
	defer cancel()
	begun := time.Now()
	err := run.Guard(method, func() error { return f(ctx) })
	p.cfg.Metrics.OnCall(Call{Driver: driver, Method: method, Took: time.Since(begun), Err: err})
	if err != nil {
		return fmt.Errorf("csi: %s: %w", method, err)
	}
	return nil
}

// driverOf is the name of a volume's driver.
func driverOf(spec *volume.Spec) string {
	if spec.Persistent != nil {
		return spec.Persistent.Spec.CSI.Driver
	}
	return spec.Inline.CSI.Driver
}

// CheckDriverName refuses a name that a driver cannot have: it names a folder, has at most
// 63 bytes, and is part of IDs in which "^" separates.
func CheckDriverName(name string) error {
	if len(name) > 63 || name == "volumeDevices" || strings.Contains(name, "^") {
		return fmt.Errorf("%.100q is no name of a driver", name)
	}
	return fs.CheckName("a driver's name", name)
}

// checkDriver refuses a volume of which the driver, or the handle, cannot be.
func checkDriver(spec *volume.Spec) error {
	err := CheckDriverName(driverOf(spec))
	switch {
	case spec.Persistent == nil && err != nil:
		return volume.AtField("csi.driver", err)
	case err != nil:
		return fmt.Errorf("csi: driver: %w", err)
	case spec.Persistent != nil && spec.Persistent.Spec.CSI.VolumeHandle == "":
		return errors.New("csi: volumeHandle is empty")
	}
	return nil
}

// fsTypeOf is the type of the file system that the volume's object names.
func fsTypeOf(spec *volume.Spec) string {
	switch {
	case spec.Persistent != nil:
		return spec.Persistent.Spec.CSI.FSType
	case spec.Inline.CSI.FSType != nil:
		return *spec.Inline.CSI.FSType
	}
	return ""
}

// accessMode is CSI's word for how a volume is used.
func accessMode(spec *volume.Spec, can Capabilities) string {
	mode := v1.ReadWriteOnce
	if spec.Persistent != nil && len(spec.Persistent.Spec.AccessModes) > 0 {
		mode = spec.Persistent.Spec.AccessModes[0]
	}
	switch {
	case mode == v1.ReadOnlyMany:
		return "MULTI_NODE_READER_ONLY"
	case mode == v1.ReadWriteMany:
		return "MULTI_NODE_MULTI_WRITER"
	case !can.MultiWriter:
		return "SINGLE_NODE_WRITER"
	case mode == v1.ReadWriteOncePod:
		return "SINGLE_NODE_SINGLE_WRITER"
	}
	return "SINGLE_NODE_MULTI_WRITER"
}
