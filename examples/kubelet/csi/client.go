package csi

import (
	"context"
	"errors"
	"net"
	"slices"
	"time"

	pb "github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	volumecsi "github.com/podwright/podwright/volume/csi"
	"github.com/podwright/podwright/volume/usage"
)

// Client calls the node service of a CSI driver. It implements Driver of volume/csi. It reconnects
// to a restarted driver. It is safe for concurrent use.
type Client struct {
	conn *grpc.ClientConn
	node pb.NodeClient
}

var _ volumecsi.Driver = (*Client)(nil)

// Dial returns a client for the driver at a socket, without waiting for a connection. Close it
// after use.
func Dial(socket string) (*Client, error) {
	conn, err := dial(socket)
	if err != nil {
		return nil, err
	}
	return &Client{conn: conn, node: pb.NewNodeClient(conn)}, nil
}

// dial returns a connection that reconnects soon after the socket has disappeared.
func dial(socket string) (*grpc.ClientConn, error) {
	return grpc.NewClient("passthrough:///", // a path need not be a URL
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", socket)
		}),
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithAuthority("localhost"),
		grpc.WithNoProxy(),
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: 100 * time.Millisecond, Multiplier: 1.6, MaxDelay: 3 * time.Second},
			MinConnectTimeout: dialTimeout,
		}))
}

// Close closes the connection. Pending calls fail.
func (c *Client) Close() error { return c.conn.Close() }

// notFinal are the codes of calls that may have had an effect or may still have one.
var notFinal = []codes.Code{codes.Canceled, codes.DeadlineExceeded, codes.Unavailable, codes.ResourceExhausted, codes.Aborted}

// classify marks the errors of calls that had no effect as final.
func classify(err error) error {
	var answer interface{ GRPCStatus() *status.Status }
	if err == nil || !errors.As(err, &answer) || slices.Contains(notFinal, answer.GRPCStatus().Code()) {
		return err
	}
	return volumecsi.Final(err)
}

// Capabilities implements Driver.
func (c *Client) Capabilities(ctx context.Context) (out volumecsi.Capabilities, err error) {
	r, err := c.node.NodeGetCapabilities(ctx, &pb.NodeGetCapabilitiesRequest{})
	for _, one := range r.GetCapabilities() {
		switch one.GetRpc().GetType() {
		case pb.NodeServiceCapability_RPC_STAGE_UNSTAGE_VOLUME:
			out.Stage = true
		case pb.NodeServiceCapability_RPC_GET_VOLUME_STATS:
			out.Stats = true
		case pb.NodeServiceCapability_RPC_EXPAND_VOLUME:
			out.Expand = true
		case pb.NodeServiceCapability_RPC_SINGLE_NODE_MULTI_WRITER:
			out.MultiWriter = true
		case pb.NodeServiceCapability_RPC_VOLUME_MOUNT_GROUP:
			out.MountGroup = true
		}
	}
	return out, classify(err)
}

func capability(c volumecsi.Capability) *pb.VolumeCapability {
	mode := pb.VolumeCapability_AccessMode_Mode(pb.VolumeCapability_AccessMode_Mode_value[c.AccessMode])
	out := &pb.VolumeCapability{AccessMode: &pb.VolumeCapability_AccessMode{Mode: mode}}
	if c.Block {
		out.AccessType = &pb.VolumeCapability_Block{Block: &pb.VolumeCapability_BlockVolume{}}
		return out
	}
	out.AccessType = &pb.VolumeCapability_Mount{Mount: &pb.VolumeCapability_MountVolume{
		FsType: c.FSType, MountFlags: c.MountFlags, VolumeMountGroup: c.MountGroup,
	}}
	return out
}

// Stage implements Driver.
func (c *Client) Stage(ctx context.Context, r volumecsi.StageRequest) error {
	_, err := c.node.NodeStageVolume(ctx, &pb.NodeStageVolumeRequest{
		VolumeId: r.VolumeID, PublishContext: r.PublishContext, StagingTargetPath: r.StagingPath,
		VolumeCapability: capability(r.Capability), Secrets: r.Secrets, VolumeContext: r.Attrs,
	})
	return classify(err)
}

// Unstage implements Driver.
func (c *Client) Unstage(ctx context.Context, volumeID, stagingPath string) error {
	_, err := c.node.NodeUnstageVolume(ctx, &pb.NodeUnstageVolumeRequest{VolumeId: volumeID, StagingTargetPath: stagingPath})
	return classify(err)
}

// Publish implements Driver.
func (c *Client) Publish(ctx context.Context, r volumecsi.PublishRequest) error {
	_, err := c.node.NodePublishVolume(ctx, &pb.NodePublishVolumeRequest{
		VolumeId: r.VolumeID, PublishContext: r.PublishContext, StagingTargetPath: r.StagingPath, TargetPath: r.TargetPath,
		VolumeCapability: capability(r.Capability), Readonly: r.ReadOnly, Secrets: r.Secrets, VolumeContext: r.Attrs,
	})
	return classify(err)
}

// Unpublish implements Driver.
func (c *Client) Unpublish(ctx context.Context, volumeID, targetPath string) error {
	_, err := c.node.NodeUnpublishVolume(ctx, &pb.NodeUnpublishVolumeRequest{VolumeId: volumeID, TargetPath: targetPath})
	return classify(err)
}

// Expand implements Driver.
func (c *Client) Expand(ctx context.Context, r volumecsi.ExpandRequest) (int64, error) {
	out, err := c.node.NodeExpandVolume(ctx, &pb.NodeExpandVolumeRequest{
		VolumeId: r.VolumeID, VolumePath: r.VolumePath, StagingTargetPath: r.StagingPath,
		CapacityRange: &pb.CapacityRange{RequiredBytes: r.Size}, VolumeCapability: capability(r.Capability), Secrets: r.Secrets,
	})
	return out.GetCapacityBytes(), classify(err)
}

// Stats implements Driver.
func (c *Client) Stats(ctx context.Context, r volumecsi.StatsRequest) (s usage.Usage, err error) {
	out, err := c.node.NodeGetVolumeStats(ctx, &pb.NodeGetVolumeStatsRequest{
		VolumeId: r.VolumeID, VolumePath: r.VolumePath, StagingTargetPath: r.StagingPath,
	})
	s = usage.Usage{Capacity: -1, Bytes: -1, Available: -1, TotalFiles: -1, Files: -1, FreeFiles: -1} // -1: not reported
	for _, u := range out.GetUsage() {
		switch u.GetUnit() {
		case pb.VolumeUsage_BYTES:
			s.Capacity, s.Bytes, s.Available = u.GetTotal(), u.GetUsed(), u.GetAvailable()
		case pb.VolumeUsage_INODES:
			s.TotalFiles, s.Files, s.FreeFiles = u.GetTotal(), u.GetUsed(), u.GetAvailable()
		}
	}
	return s, classify(err)
}

// NodeInfo is a driver's description of the node.
type NodeInfo struct {
	// NodeID is the node's ID for the driver.
	NodeID string
	// MaxVolumes is the maximum number of volumes on the node. Zero: the driver reports no limit.
	MaxVolumes int64
	// Topology has the topology labels of the node for the driver, or nil.
	Topology map[string]string
}

// NodeInfo calls NodeGetInfo.
func (c *Client) NodeInfo(ctx context.Context) (NodeInfo, error) {
	r, err := c.node.NodeGetInfo(ctx, &pb.NodeGetInfoRequest{})
	if err != nil {
		return NodeInfo{}, classify(err)
	}
	return NodeInfo{NodeID: r.GetNodeId(), MaxVolumes: r.GetMaxVolumesPerNode(), Topology: r.GetAccessibleTopology().GetSegments()}, nil
}
