package summary

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/podwright/podwright/cri/stats"
	"github.com/podwright/podwright/internal/podfacts"
)

func (p *Provider) cadvisor(ctx context.Context) (families, error) {
	in, err := p.read(ctx, All, stats.CollectOptions{Storage: true, Network: true, Details: true})
	if err != nil {
		return nil, err
	}
	p.logUnread("cadvisor", in.unread)
	f := families{}
	f.machine(in, p.cfg.Machine)
	f.root(p, in)
	for _, cgroup := range p.above() {
		if d, err := p.cfg.Cgroups.Details(cgroup); err == nil {
			s := subject{labels: labels("", cgroup, "", "", "", ""), details: &d, at: in.at}
			s.created, _ = p.cfg.Cgroups.Created(cgroup)
			f.cgroup(p.figures, in, &s)
		}
	}
	p.nameImages(in)
	for i := range in.pods {
		f.cgroupsOf(p.figures, in, &in.pods[i])
	}
	return f, nil
}

// nameImages replaces the containers' image names by the names in the pod specs, because a runtime
// may report only resolved ones.
func (p *Provider) nameImages(in *reading) {
	images := map[[2]string]string{}
	for _, pod := range p.cfg.Pods() {
		for c := range podfacts.Containers(pod) {
			images[[2]string{string(pod.UID), c.Name}] = c.Image
		}
	}
	for i := range in.pods {
		for k := range in.pods[i].Containers {
			c := &in.pods[i].Containers[k]
			if name := images[[2]string{in.pods[i].UID, c.Name}]; name != "" {
				c.Image = name
			}
		}
	}
}

// above returns the cgroups other than the root and the cgroups of pods.
func (p *Provider) above() []string {
	if p.cfg.Cgroups == nil {
		return nil
	}
	all := map[string]bool{}
	for _, cgroup := range append(slices.Collect(maps.Values(p.cfg.Systems)), p.cfg.Above...) {
		all[cgroup] = cgroup != ""
	}
	return slices.DeleteFunc(slices.Sorted(maps.Keys(all)), func(cgroup string) bool { return !all[cgroup] })
}

// subject is a cgroup with its metrics' sources.
type subject struct {
	labels  *labelSet
	details *stats.Details
	network *stats.Network
	layer   *stats.Filesystem
	device  string // of the layer
	created time.Time
	at      time.Time
}

func labels(container, id, image, name, namespace, pod string) *labelSet {
	return pairs("container", container, "id", id, "image", image, "name", name, "namespace", namespace, "pod", pod)
}

// root adds the metrics of the root cgroup and of the machine's networks and disks.
func (f families) root(p *Provider, in *reading) {
	s := subject{labels: labels("", "/", "", "", "", ""), network: in.network, created: in.machine.Boot, at: in.at}
	d := stats.Details{Usage: in.node}
	if p.cfg.Cgroups != nil {
		if read, err := p.cfg.Cgroups.Details("/"); err == nil {
			d = read
			d.Usage = in.node
			d.Limits.Memory = in.machine.Memory
		}
	}
	s.details = &d
	f.cgroup(p.figures, in, &s)
	seen := map[string]bool{}
	for _, disk := range []*stats.Filesystem{in.disk, in.images, in.containers} {
		if disk == nil || seen[in.device(disk.Mountpoint)] {
			continue
		}
		seen[in.device(disk.Mountpoint)] = true
		if whole := in.onDisk(disk.Mountpoint); whole != nil { // the usage of the whole disk
			f.disk(&s, whole, in.device(disk.Mountpoint))
		}
	}
}

// cgroupsOf adds the metrics of a pod, of its sandbox, which has the network as in cAdvisor, and of
// its containers.
func (f families) cgroupsOf(figures []figure, in *reading, p *stats.Pod) {
	if p.Details != nil {
		f.cgroup(figures, in, &subject{labels: labels("", p.Cgroup, "", "", p.Namespace, p.Name), details: p.Details, created: p.Created, at: in.at})
	}
	f.cgroup(figures, in, &subject{labels: labels("", p.SandboxCgroup, "", p.Sandbox, p.Namespace, p.Name), network: p.Network, created: p.Created, at: in.at})
	for i := range p.Containers {
		c := &p.Containers[i]
		s := subject{labels: labels(c.Name, c.Cgroup, c.Image, c.ID, p.Namespace, p.Name), details: c.Details, layer: c.Writable, created: c.Created, at: in.at}
		if s.details == nil {
			s.details = &stats.Details{Usage: c.Usage} // reported by the runtime
		}
		if s.layer != nil {
			s.device = in.device(s.layer.Mountpoint)
		}
		f.cgroup(figures, in, &s)
	}
}

// device returns the block device of a folder. It looks up each folder once per scrape.
func (in *reading) device(dir string) string {
	if in.devices == nil {
		in.devices = map[string]string{}
	}
	name, known := in.devices[dir]
	if !known {
		name = in.names.blockDevice(dir)
		in.devices[dir] = name
	}
	return name
}

func (f families) cgroup(figures []figure, in *reading, s *subject) {
	f.add(metricInfo{"container_last_seen", "Unix time at which the container was last observed, in seconds", false}, s.labels, float64(s.at.Unix()), s.at)
	if !s.created.IsZero() {
		f.add(metricInfo{"container_start_time_seconds", "Unix time of the container's start, in seconds", false}, s.labels, float64(s.created.Unix()), time.Time{})
	}
	if s.network != nil {
		f.network(s)
	}
	if s.layer != nil {
		f.disk(s, s.layer, s.device)
	}
	if s.details == nil {
		return
	}
	at := s.details.Time
	for i := range figures {
		if value, ok := figures[i].of(s.details); ok {
			labels := s.labels
			if figures[i].more != nil {
				labels = labels.and(figures[i].more...)
			}
			when := at
			if figures[i].setting {
				when = time.Time{}
			}
			f.add(figures[i].metricInfo, labels, value, when)
		}
	}
	for _, d := range s.details.Devices {
		labels := s.labels.and("device", in.names.of(d.Major, d.Minor))
		for _, v := range []struct {
			name, help string
			value      uint64
		}{
			{"container_fs_reads_bytes_total", "Bytes read", d.Bytes.Read},
			{"container_fs_writes_bytes_total", "Bytes written", d.Bytes.Written},
			{"container_fs_reads_total", "Completed reads", d.Operations.Read},
			{"container_fs_writes_total", "Completed writes", d.Operations.Written},
		} {
			f.add(metricInfo{v.name, v.help, true}, labels, float64(v.value), at)
		}
	}
}

func (f families) network(s *subject) {
	for _, i := range s.network.Interfaces {
		labels := s.labels.and("interface", i.Name)
		for _, way := range []struct {
			name, verb string
			traffic    stats.Traffic
		}{{"receive", "received", i.Received}, {"transmit", "sent", i.Sent}} {
			for _, v := range []struct {
				what, help string
				value      *uint64
			}{
				{"bytes", "Bytes " + way.verb, way.traffic.Bytes},
				{"packets", "Packets " + way.verb, way.traffic.Packets},
				{"packets_dropped", "Dropped packets, instead of " + way.verb, way.traffic.Dropped},
				{"errors", "Errors of packets " + way.verb, way.traffic.Errors},
			} {
				if v.value != nil {
					f.add(metricInfo{"container_network_" + way.name + "_" + v.what + "_total", v.help, true}, labels, float64(*v.value), s.network.Time)
				}
			}
		}
	}
}

func (f families) disk(s *subject, d *stats.Filesystem, device string) {
	labels := s.labels.and("device", device)
	for _, v := range []struct {
		name, help string
		value      *uint64
	}{
		{"container_fs_usage_bytes", "Bytes of this file system used by the container", d.Used},
		{"container_fs_limit_bytes", "Bytes of this file system that the container can use", d.Capacity},
		{"container_fs_inodes_total", "Maximum number of inodes of this file system", d.Inodes},
		{"container_fs_inodes_free", "Number of free inodes of this file system", d.InodesFree},
	} {
		if v.value != nil {
			f.add(metricInfo{v.name, v.help, false}, labels, float64(*v.value), d.Time)
		}
	}
}

func (f families) machine(in *reading, m Machine) {
	f.add(metricInfo{"cadvisor_version_info", "1, with the versions of kernel and operating system as labels; the labels for Docker and cAdvisor are empty", false},
		pairs("kernelVersion", m.Kernel, "osVersion", m.OS, "dockerVersion", "", "cadvisorVersion", "", "cadvisorRevision", ""), 1, time.Time{})
	labels := pairs("boot_id", m.BootID, "machine_id", m.MachineID, "system_uuid", m.SystemUUID)
	add := func(name, help string, value float64) {
		f.add(metricInfo{name, help, false}, labels, value, in.machine.Time)
	}
	add("machine_cpu_cores", "Logical CPUs", float64(in.machine.Processors))
	if t := in.topology; t.Cores > 0 {
		add("machine_cpu_physical_cores", "Physical cores", float64(t.Cores))
		add("machine_cpu_sockets", "Sockets", float64(t.Sockets))
	}
	if in.machine.Memory != nil {
		add("machine_memory_bytes", "Memory of the machine, in bytes", float64(*in.machine.Memory))
	}
	if in.machine.Swap != nil {
		add("machine_swap_bytes", "Swap of the machine, in bytes", float64(*in.machine.Swap))
	}
	f.add(metricInfo{"machine_scrape_error", "1 if reading the machine's resources failed, else 0", false}, nil, 0, time.Time{})
	f.add(metricInfo{"container_scrape_error", "1 if reading container statistics failed, else 0", false}, nil, 0, time.Time{})
}
