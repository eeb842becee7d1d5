package fake

import (
	"maps"
	"slices"
	"strings"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// copyContainerConfig copies a config. Copies are most of what a container costs,
// so what every container has is copied by hand and in few allocations; the rest
// is left to proto.Clone. Environment variables, which are many, are not copied:
// the runtime keeps them as text, see envOf. Fields that this version of the CRI
// does not know are dropped, since nothing could read them. A test fills all
// fields and compares.
func copyContainerConfig(from *runtimeapi.ContainerConfig) *runtimeapi.ContainerConfig {
	all := &struct {
		config   runtimeapi.ContainerConfig
		metadata runtimeapi.ContainerMetadata
		image    runtimeapi.ImageSpec
		linux    runtimeapi.LinuxContainerConfig
	}{}
	to := &all.config
	if from.Metadata != nil {
		all.metadata.Name, all.metadata.Attempt = from.Metadata.Name, from.Metadata.Attempt
		to.Metadata = &all.metadata
	}
	if from.Image != nil {
		fillImageSpec(&all.image, from.Image)
		all.image.Annotations = maps.Clone(from.Image.Annotations)
		to.Image = &all.image
	}
	to.Command, to.Args = slices.Clone(from.Command), slices.Clone(from.Args)
	to.Mounts = copyMounts(from.Mounts)
	to.Labels, to.Annotations = maps.Clone(from.Labels), maps.Clone(from.Annotations)
	to.WorkingDir, to.LogPath, to.StopSignal = from.WorkingDir, from.LogPath, from.StopSignal
	to.Stdin, to.StdinOnce, to.Tty = from.Stdin, from.StdinOnce, from.Tty
	if from.Linux != nil {
		all.linux.Resources = copyResources(from.Linux.Resources)
		all.linux.SecurityContext = clone(from.Linux.SecurityContext)
		to.Linux = &all.linux
	}
	to.Windows = clone(from.Windows)
	to.Devices, to.CDIDevices = cloneAll(from.Devices), cloneAll(from.CDIDevices)
	return to
}

// copyEach copies messages into one allocation.
func copyEach[T any](from []*T, fill func(to, from *T)) []*T {
	if len(from) == 0 {
		return nil
	}
	items, to := make([]T, len(from)), make([]*T, len(from))
	for i := range from {
		if from[i] != nil {
			fill(&items[i], from[i])
		}
		to[i] = &items[i]
	}
	return to
}

// fullConfig is the config that the container was made with.
func (c *container) fullConfig() *runtimeapi.ContainerConfig {
	full := copyContainerConfig(c.config)
	for _, variable := range c.env {
		key, value, _ := strings.Cut(variable, "=")
		full.Envs = append(full.Envs, &runtimeapi.KeyValue{Key: key, Value: []byte(value)})
	}
	return full
}

func copyMounts(from []*runtimeapi.Mount) []*runtimeapi.Mount {
	return copyEach(from, func(to, from *runtimeapi.Mount) {
		to.ContainerPath, to.HostPath = from.ContainerPath, from.HostPath
		to.Readonly, to.RecursiveReadOnly, to.SelinuxRelabel = from.Readonly, from.RecursiveReadOnly, from.SelinuxRelabel
		to.Propagation = from.Propagation
		to.UidMappings, to.GidMappings = cloneAll(from.UidMappings), cloneAll(from.GidMappings)
		to.Image, to.ImageSubPath, to.MountOptions = clone(from.Image), from.ImageSubPath, slices.Clone(from.MountOptions)
	})
}

// copyResources copies resources, nil for nil.
func copyResources(from *runtimeapi.LinuxContainerResources) *runtimeapi.LinuxContainerResources {
	if from == nil {
		return nil
	}
	return &runtimeapi.LinuxContainerResources{
		CpuPeriod: from.CpuPeriod, CpuQuota: from.CpuQuota, CpuShares: from.CpuShares,
		CpusetCpus: from.CpusetCpus, CpusetMems: from.CpusetMems,
		MemoryLimitInBytes: from.MemoryLimitInBytes, MemorySwapLimitInBytes: from.MemorySwapLimitInBytes,
		OomScoreAdj: from.OomScoreAdj, HugepageLimits: cloneAll(from.HugepageLimits), Unified: maps.Clone(from.Unified),
	}
}
