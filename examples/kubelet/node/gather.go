package node

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"sync"

	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/cri"
	"github.com/podwright/podwright/internal/fields"
	nodestatus "github.com/podwright/podwright/status/node"
)

// Version is what the agent reports as the kubelet's version: the release whose behaviour
// it has, and who it is.
const Version = "v1.36.3+podwright"

// GathererConfig says where facts come from. Root is required. A function that is nil is
// one that knows nothing, which is not the same as none: see Facts of status/node.
type GathererConfig struct {
	// Root is the root of the machine's file system: os.DirFS("/").
	Root fs.FS
	// Storage is the size in bytes of the file system with the pods' folders; see
	// StorageOf. nil means that no storage is counted (localStorageCapacityIsolation: false).
	Storage func() (int64, error)
	// Reserved is what pods may not have.
	Reserved Reservations
	// MaxPods and PodsPerCore are the configuration's: zero is 110, and no such limit.
	MaxPods, PodsPerCore int32
	// MaxImages is nodeStatusMaxImages: negative for all, and zero is none.
	MaxImages int32
	// Port is where the kubelet's API is served; zero: nowhere.
	Port int32

	// Runtime is the runtime's name and version: "containerd", "2.2.1".
	Runtime func() (name, version string)
	// Health is what the runtime says of itself.
	Health func() cri.Health
	// Images lists the images.
	Images func(ctx context.Context) ([]*runtimeapi.Image, error)
	// Pressure is what the node is short of. nil means nothing: there is no eviction.
	Pressure func() nodestatus.Pressure
	// Plugins are the resources that plugins provide.
	Plugins func() map[v1.ResourceName]nodestatus.Amount
	// VolumesInUse are the attachable volumes in use, nil while that is not known.
	VolumesInUse func() []v1.UniqueVolumeName
	// Declared are the features to declare; see Declared.
	Declared func() []string
	// Logger is told what cannot be found out. nil means none.
	Logger *slog.Logger
}

// Gatherer finds out the facts about a node. Use NewGatherer.
type Gatherer struct {
	cfg GathererConfig

	mu    sync.Mutex
	fault string
	last  nodestatus.Machine
}

// NewGatherer checks the configuration.
func NewGatherer(cfg GathererConfig) (*Gatherer, error) {
	if err := fields.Required("node: GathererConfig.Root", cfg.Root); err != nil {
		return nil, err
	}
	fields.Logger(&cfg.Logger)
	return &Gatherer{cfg: cfg}, nil
}

// Facts are what is known now. What cannot be found out of the machine is a reason why the
// node is not ready; of the images, one to leave them as they were.
func (g *Gatherer) Facts(ctx context.Context) nodestatus.Facts {
	c := &g.cfg
	f := nodestatus.Facts{
		Port:           c.Port,
		MaxPods:        int64(c.MaxPods),
		PodsPerCore:    int64(c.PodsPerCore),
		MaxImages:      int(c.MaxImages),
		Pressure:       &nodestatus.Pressure{},
		NoLocalStorage: c.Storage == nil,
	}
	machine, err := g.machine()
	if err != nil {
		f.NotReady = append(f.NotReady, "machine: "+err.Error())
	}
	f.Machine, f.Reserved = machine, g.reserved(machine)
	var images error
	if f.Images, images = g.images(ctx); c.MaxImages == 0 {
		f.Images = []nodestatus.Image{}
	}
	g.report(errors.Join(err, images))
	g.versions(&f)
	g.runtime(&f)
	g.rest(&f)
	return f
}

// reserved is what pods may not have: of the machine as it was known last, if it is not now.
func (g *Gatherer) reserved(m *nodestatus.Machine) v1.ResourceList {
	g.mu.Lock()
	defer g.mu.Unlock()
	if m != nil {
		g.last = *m
	}
	return g.cfg.Reserved.Of(&g.last)
}

func (g *Gatherer) machine() (*nodestatus.Machine, error) {
	m, err := ReadMachine(g.cfg.Root)
	if err != nil {
		return nil, err
	}
	if g.cfg.Storage != nil {
		if m.Storage, err = g.cfg.Storage(); err != nil {
			return nil, err
		}
	}
	return &m, nil
}

func (g *Gatherer) images(ctx context.Context) ([]nodestatus.Image, error) {
	if g.cfg.Images == nil {
		return nil, nil
	}
	list, err := g.cfg.Images(ctx)
	if err != nil {
		return nil, err
	}
	images := make([]nodestatus.Image, 0, len(list))
	for _, i := range list {
		images = append(images, nodestatus.Image{Digests: i.GetRepoDigests(), Tags: i.GetRepoTags(), Bytes: int64(i.GetSize())})
	}
	return images, nil
}

func (g *Gatherer) versions(f *nodestatus.Facts) {
	versions := ReadVersions(g.cfg.Root)
	versions.Agent = Version
	if g.cfg.Runtime != nil {
		if name, version := g.cfg.Runtime(); name != "" {
			versions.Runtime = name + "://" + version
		}
	}
	f.Versions = &versions
}

// runtime is what the runtime can do, once it has said anything.
func (g *Gatherer) runtime(f *nodestatus.Facts) {
	if g.cfg.Health == nil {
		return
	}
	h := g.cfg.Health()
	if h.LastGood.IsZero() {
		return
	}
	f.Handlers = []nodestatus.Handler{}
	for _, handler := range h.Handlers {
		f.Handlers = append(f.Handlers, nodestatus.Handler(handler))
	}
	f.Features = &nodestatus.Features{SupplementalGroupsPolicy: h.Features.SupplementalGroupsPolicy}
}

func (g *Gatherer) rest(f *nodestatus.Facts) {
	c := &g.cfg
	if c.Pressure != nil {
		pressure := c.Pressure()
		f.Pressure = &pressure
	}
	if c.Plugins != nil {
		f.Plugins = c.Plugins()
	}
	if c.VolumesInUse != nil {
		f.VolumesInUse = c.VolumesInUse()
	}
	if c.Declared != nil {
		f.Declared = c.Declared()
	}
}

// report logs what cannot be found out when it changes.
func (g *Gatherer) report(err error) {
	text := ""
	if err != nil {
		text = err.Error()
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if text != g.fault && text != "" {
		g.cfg.Logger.Error("cannot find out all about this machine", "err", err)
	}
	g.fault = text
}

// Declared are the features that are told to schedulers (KEP-5328), of those that upstream
// declares in v1.36: only what works here, with this runtime.
func Declared(runtime cri.Features) []string {
	features := []string{"InPlacePodLevelResourcesVerticalScaling", "InPlacePodVerticalScalingInitContainers", "RestartAllContainersOnContainerExits"}
	if runtime.UserNamespacesHostNetwork {
		features = append(features, "UserNamespacesHostNetworkSupport")
	}
	return features
}

// NotReady are the reasons against a node's being ready that its runtime gives.
func NotReady(h cri.Health) (why []string) {
	if !h.RuntimeReady.Ready() {
		why = append(why, "container runtime is "+h.RuntimeReady.String())
	}
	if !h.NetworkReady.Ready() {
		why = append(why, "container runtime network is "+h.NetworkReady.String())
	}
	return why
}
