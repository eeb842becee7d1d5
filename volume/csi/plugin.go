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
	// Layout maps volumes to paths. Its Root must be absolute.
	Layout volume.Layout
	// NodeName is the name of the Node object.
	NodeName string
	// Drivers finds the drivers of the node.
	Drivers Drivers
	// CSIDrivers reads the CSIDriver objects. Optional: without it drivers have the settings of
	// a driver without an object.
	CSIDrivers objects.CSIDrivers
	// Secrets reads the secrets that volumes name. Optional: without it these volumes fail.
	Secrets objects.Secrets
	// Tokens requests service account tokens for drivers. An objects.TokenCache caches them.
	// Optional: without it volumes of drivers with tokenRequests fail.
	Tokens objects.Tokens
	// Attachments reads the metadata of attached volumes. Optional: without it there is none.
	Attachments Attachments
	// Mounts unmounts volumes without a valid vol_data.json and lists mounts for SELinux.
	// Default: a mounts.Kernel.
	Mounts mounts.Mounter
	// SELinux is true for a node with SELinux. The plugin then finds out for each volume
	// without a label whether its files can have labels (volume.Mounted.Relabel).
	SELinux bool
	// CallTimeout bounds each call of a driver. Default: 2 min.
	CallTimeout time.Duration
	Metrics     Metrics
	// Logger receives failures that do not fail a call. Optional: without it they are
	// discarded.
	Logger *slog.Logger
}

// Metrics are callbacks for the calls of drivers. They are optional, are called concurrently,
// and must not block.
type Metrics struct {
	// OnCall is called after each call of a driver. It corresponds to upstream's
	// csi_operations_seconds.
	OnCall func(Call)
}

// Call is a completed call of a driver.
type Call struct {
	// Driver is the driver's name. Method is the method of CSI, such as "NodePublishVolume".
	Driver, Method string
	// Took is the duration of the call.
	Took time.Duration
	// Err is the error of the call, or nil.
	Err error
}

// Attachments reads metadata of VolumeAttachments. Methods are called concurrently.
type Attachments interface {
	// PublishContext returns status.attachmentMetadata of a VolumeAttachment.
	PublishContext(ctx context.Context, attachment string) (map[string]string, error)
}

// Plugin implements volume.Plugin for CSI volumes. Create it with New. It is safe for
// concurrent use.
type Plugin struct {
	cfg   Config
	calls run.Calls
}

var (
	_ volume.Plugin     = (*Plugin)(nil)
	_ volume.Stager     = (*Plugin)(nil)
	_ volume.Identifier = (*Plugin)(nil)
	_ volume.Attachable = (*Plugin)(nil)
	_ volume.Expander   = (*Plugin)(nil)
	_ volume.Remounter  = (*Plugin)(nil)
	_ volume.Dependent  = (*Plugin)(nil)

	_ volume.LabelMounter = (*Plugin)(nil)
)

// New checks the configuration and returns a Plugin.
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

// Remounts implements volume.Remounter. It reports whether the driver sets requiresRepublish.
func (p *Plugin) Remounts(spec *volume.Spec) bool {
	o, err := p.object(driverOf(spec))
	return err == nil && is(o.RequiresRepublish)
}

// Objects implements volume.Dependent. A volume that failed to mount is retried when one of
// these objects appears. A mounted volume is published again only if Remounts is true for it.
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

// MountsLabel implements volume.LabelMounter. It reports whether the driver sets seLinuxMount.
func (p *Plugin) MountsLabel(spec *volume.Spec) (bool, error) {
	o, err := p.object(driverOf(spec))
	return err == nil && is(o.SELinuxMount), err
}

// Attaches implements volume.Attachable. It reports true for a PersistentVolume unless the
// driver sets attachRequired to false.
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

// object returns the spec of a driver's CSIDriver object, or an empty spec if there is no
// object.
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

// driver finds a driver. The error for a missing driver is transient.
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

func (p *Plugin) capabilities(ctx context.Context, name string, d Driver) (c Capabilities, err error) {
	err = p.call(ctx, name, "NodeGetCapabilities", func(ctx context.Context) (err error) {
		c, err = d.Capabilities(ctx)
		return err
	})
	return c, volume.Transient(err)
}

// call calls a driver with a timeout and reports the call to Metrics.
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

func driverOf(spec *volume.Spec) string {
	if spec.Persistent != nil {
		return spec.Persistent.Spec.CSI.Driver
	}
	return spec.Inline.CSI.Driver
}

// CheckDriverName returns an error for an invalid name of a driver. A name must be a valid
// folder name other than "volumeDevices", with at most 63 bytes and without "^", which
// separates the parts of volume ids.
func CheckDriverName(name string) error {
	if len(name) > 63 || name == "volumeDevices" || strings.Contains(name, "^") {
		return fmt.Errorf("%.100q is not a valid name of a driver", name)
	}
	return fs.CheckName("a driver's name", name)
}

// checkDriver returns an error if the driver's name is invalid or the volume handle is empty.
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

func fsTypeOf(spec *volume.Spec) string {
	switch {
	case spec.Persistent != nil:
		return spec.Persistent.Spec.CSI.FSType
	case spec.Inline.CSI.FSType != nil:
		return *spec.Inline.CSI.FSType
	}
	return ""
}

// accessMode returns the volume's access mode in CSI's terms.
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
