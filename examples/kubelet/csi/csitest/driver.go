// Package csitest has a small CSI driver for tests, over real sockets. Its volumes are tmpfs
// mounts, which need root. Without Data they are empty after each staging. With Data there is also
// a controller: Create creates volumes of a fixed size, some of them devices, that keep their
// content until Delete.
//
// The driver can be slow, fail and hang (Fault, Done), and can be restarted (Stop and Start). On
// publish it writes a file into the volume for each entry of the volume context and of the secrets,
// named by the last part of the key.
package csitest

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"sync"

	pb "github.com/container-storage-interface/spec/lib/go/csi"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
	registration "k8s.io/kubelet/pkg/apis/pluginregistration/v1"
)

// Driver is a CSI driver. Set its fields before Start.
type Driver struct {
	// Name is the driver's name. Versions are its supported versions. Default: "1.0.0".
	Name     string
	Versions []string
	// Registry is the folder for the registration socket, Socket the path of the driver's socket.
	// Both are required. RegistrySocket is the name of the registration socket. Default:
	// NAME-reg.sock.
	Registry, Socket, RegistrySocket string
	// Stages announces the capability STAGE_UNSTAGE_VOLUME.
	Stages bool
	// Data is the folder of the volumes of Create. Default: none.
	Data string
	// MaxVolumes is the maximum number of volumes on the node. Default: 7.
	MaxVolumes int64
	// Fault is called at the start of each call with the name of its method. Its error, a gRPC
	// status, fails the call. While it blocks, the call hangs. Optional.
	Fault func(ctx context.Context, method string) error
	// Done is like Fault, but is called after the call has had its effect. Optional.
	Done func(ctx context.Context, method string) error

	pb.UnimplementedNodeServer
	registration.UnimplementedRegistrationServer

	mu      sync.Mutex
	calls   []string
	log     []string
	status  []*registration.RegistrationStatus
	servers []*grpc.Server
	serving sync.WaitGroup
}

// Calls returns the names of the called methods.
func (d *Driver) Calls() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.calls)
}

// Log returns the calls about volumes, as "begin NodeStageVolume handle" at the start and
// "NodeStageVolume handle" after success.
func (d *Driver) Log() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.log)
}

func (d *Driver) note(text string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.log = append(d.log, text)
}

// Told returns the registration statuses that the driver received.
func (d *Driver) Told() []*registration.RegistrationStatus {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.status)
}

// Start serves both sockets.
func (d *Driver) Start() error {
	if err := d.serve(d.Socket, func(s *grpc.Server) { pb.RegisterNodeServer(s, d) }); err != nil {
		return err
	}
	name := d.RegistrySocket
	if name == "" {
		name = d.Name + "-reg.sock"
	}
	return d.serve(filepath.Join(d.Registry, name), func(s *grpc.Server) { registration.RegisterRegistrationServer(s, d) })
}

func (d *Driver) serve(socket string, register func(*grpc.Server)) error {
	listener, err := net.Listen("unix", socket)
	if err != nil {
		return err
	}
	server := grpc.NewServer(grpc.UnaryInterceptor(d.intercept))
	register(server)
	d.servers = append(d.servers, server)
	d.serving.Go(func() { _ = server.Serve(listener) })
	return nil
}

// Stop stops the servers and their pending calls. Mounts stay.
func (d *Driver) Stop() {
	for _, s := range d.servers {
		s.Stop()
	}
	d.servers = nil
	d.serving.Wait()
}

func (d *Driver) intercept(ctx context.Context, r any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
	method := filepath.Base(info.FullMethod)
	d.mu.Lock()
	d.calls = append(d.calls, method)
	d.mu.Unlock()
	about, of := r.(interface{ GetVolumeId() string })
	if of {
		d.note("begin " + method + " " + about.GetVolumeId())
		ctx = context.WithValue(ctx, handle{}, about.GetVolumeId())
	}
	if d.Fault != nil {
		if err := d.Fault(ctx, method); err != nil {
			return nil, err
		}
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	answer, err := next(ctx, r)
	if err == nil && d.Done != nil {
		err = d.Done(ctx, method)
	}
	if of && err == nil {
		d.note(method + " " + about.GetVolumeId())
	}
	return answer, err
}

// handle is the context key of VolumeOf.
type handle struct{}

// VolumeOf returns the volume handle of the current call, for Fault and Done.
func VolumeOf(ctx context.Context) string {
	id, _ := ctx.Value(handle{}).(string)
	return id
}

// GetInfo implements the registration service.
func (d *Driver) GetInfo(context.Context, *registration.InfoRequest) (*registration.PluginInfo, error) {
	versions := d.Versions
	if versions == nil {
		versions = []string{"1.0.0"}
	}
	return &registration.PluginInfo{Type: registration.CSIPlugin, Name: d.Name, Endpoint: d.Socket, SupportedVersions: versions}, nil
}

// NotifyRegistrationStatus implements the registration service.
func (d *Driver) NotifyRegistrationStatus(_ context.Context, s *registration.RegistrationStatus) (*registration.RegistrationStatusResponse, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.status = append(d.status, s)
	return &registration.RegistrationStatusResponse{}, nil
}

// NodeGetInfo implements CSI.
func (d *Driver) NodeGetInfo(context.Context, *pb.NodeGetInfoRequest) (*pb.NodeGetInfoResponse, error) {
	return &pb.NodeGetInfoResponse{
		NodeId: "id-of-" + d.Name, MaxVolumesPerNode: cmp.Or(d.MaxVolumes, 7),
		AccessibleTopology: &pb.Topology{Segments: map[string]string{"zone": "a"}},
	}, nil
}

// NodeGetCapabilities implements CSI.
func (d *Driver) NodeGetCapabilities(context.Context, *pb.NodeGetCapabilitiesRequest) (*pb.NodeGetCapabilitiesResponse, error) {
	types := []pb.NodeServiceCapability_RPC_Type{
		pb.NodeServiceCapability_RPC_GET_VOLUME_STATS, pb.NodeServiceCapability_RPC_EXPAND_VOLUME,
	}
	if d.Stages {
		types = append(types, pb.NodeServiceCapability_RPC_STAGE_UNSTAGE_VOLUME)
	}
	out := &pb.NodeGetCapabilitiesResponse{}
	for _, t := range types {
		out.Capabilities = append(out.Capabilities, &pb.NodeServiceCapability{Type: &pb.NodeServiceCapability_Rpc{
			Rpc: &pb.NodeServiceCapability_RPC{Type: t},
		}})
	}
	return out, nil
}

// NodeStageVolume implements CSI. It mounts a tmpfs or a volume of Create.
func (d *Driver) NodeStageVolume(_ context.Context, r *pb.NodeStageVolumeRequest) (*pb.NodeStageVolumeResponse, error) {
	if d.Data == "" {
		return &pb.NodeStageVolumeResponse{}, mount("tmpfs", r.StagingTargetPath, "tmpfs", 0)
	}
	if r.VolumeCapability.GetBlock() != nil {
		_, err := attach(d.path(r.VolumeId))
		return &pb.NodeStageVolumeResponse{}, err
	}
	return &pb.NodeStageVolumeResponse{}, mount(d.path(r.VolumeId), r.StagingTargetPath, "", unix.MS_BIND)
}

// NodeUnstageVolume implements CSI.
func (d *Driver) NodeUnstageVolume(_ context.Context, r *pb.NodeUnstageVolumeRequest) (*pb.NodeUnstageVolumeResponse, error) {
	if err := unmount(r.StagingTargetPath); err != nil || d.Data == "" {
		return &pb.NodeUnstageVolumeResponse{}, err
	}
	return &pb.NodeUnstageVolumeResponse{}, detach(d.path(r.VolumeId))
}

// NodePublishVolume implements CSI. It mounts the staged volume or a tmpfs.
func (d *Driver) NodePublishVolume(_ context.Context, r *pb.NodePublishVolumeRequest) (*pb.NodePublishVolumeResponse, error) {
	if r.VolumeCapability.GetBlock() != nil {
		return &pb.NodePublishVolumeResponse{}, publishDevice(d.path(r.VolumeId), r.TargetPath)
	}
	if err := os.Mkdir(r.TargetPath, 0o750); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	source, fsType, flags := "tmpfs", "tmpfs", uintptr(0)
	if r.StagingTargetPath != "" {
		source, fsType, flags = r.StagingTargetPath, "", unix.MS_BIND
	}
	if err := mount(source, r.TargetPath, fsType, flags); err != nil {
		return nil, err
	}
	return &pb.NodePublishVolumeResponse{}, fill(r)
}

// fill writes the volume context and secrets into a volume, unless it is read-only already.
func fill(r *pb.NodePublishVolumeRequest) error {
	for _, texts := range []map[string]string{r.VolumeContext, r.Secrets} {
		for key, text := range texts {
			err := os.WriteFile(filepath.Join(r.TargetPath, filepath.Base(key)), []byte(text), 0o644)
			if errors.Is(err, unix.EROFS) {
				return nil
			}
			if err != nil {
				return err
			}
		}
	}
	if !r.Readonly {
		return nil
	}
	return unix.Mount("", r.TargetPath, "", unix.MS_REMOUNT|unix.MS_BIND|unix.MS_RDONLY, "")
}

// NodeUnpublishVolume implements CSI.
func (d *Driver) NodeUnpublishVolume(_ context.Context, r *pb.NodeUnpublishVolumeRequest) (*pb.NodeUnpublishVolumeResponse, error) {
	if err := unmount(r.TargetPath); err != nil {
		return nil, err
	}
	if err := os.Remove(r.TargetPath); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	return &pb.NodeUnpublishVolumeResponse{}, nil
}

// NodeExpandVolume implements CSI. It enlarges a volume of Create; a tmpfs without Data needs no
// change.
func (d *Driver) NodeExpandVolume(_ context.Context, r *pb.NodeExpandVolumeRequest) (*pb.NodeExpandVolumeResponse, error) {
	if d.Data != "" {
		if err := grow(d.path(r.VolumeId), r.CapacityRange.GetRequiredBytes()); err != nil {
			return nil, err
		}
	}
	return &pb.NodeExpandVolumeResponse{CapacityBytes: r.CapacityRange.GetRequiredBytes()}, nil
}

// NodeGetVolumeStats implements CSI.
func (d *Driver) NodeGetVolumeStats(_ context.Context, r *pb.NodeGetVolumeStatsRequest) (*pb.NodeGetVolumeStatsResponse, error) {
	var s unix.Statfs_t
	if err := unix.Statfs(r.VolumePath, &s); err != nil {
		return nil, err
	}
	size, free := int64(s.Blocks)*s.Bsize, int64(s.Bavail)*s.Bsize
	return &pb.NodeGetVolumeStatsResponse{Usage: []*pb.VolumeUsage{
		{Unit: pb.VolumeUsage_BYTES, Total: size, Used: size - free, Available: free},
		{Unit: pb.VolumeUsage_INODES, Total: int64(s.Files), Used: int64(s.Files - s.Ffree), Available: int64(s.Ffree)},
	}}, nil
}

func mount(source, target, fsType string, flags uintptr) error {
	if is, err := mounted(target); err != nil || is {
		return err
	}
	return unix.Mount(source, target, fsType, flags, "")
}

// unmount removes all mounts at a path.
func unmount(path string) error {
	for {
		is, err := mounted(path)
		if errors.Is(err, fs.ErrNotExist) || err == nil && !is {
			return nil
		}
		if err != nil {
			return err
		}
		if err := unix.Unmount(path, unix.UMOUNT_NOFOLLOW); err != nil {
			return err
		}
	}
}

// mounted reports whether a path is on another filesystem than its parent folder.
func mounted(path string) (bool, error) {
	var here, above unix.Stat_t
	if err := unix.Lstat(path, &here); err != nil {
		return false, err
	}
	err := unix.Lstat(filepath.Dir(path), &above)
	return here.Dev != above.Dev, err
}
