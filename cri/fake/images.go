package fake

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// storedImage is an image that is present, under one name or more.
type storedImage struct {
	Image
	tags    []string
	digests []string // repository digests
}

// resolvedImage is what a container keeps of its image.
type resolvedImage struct {
	id, tag, digest string
	uid             int64
}

// imageStore holds the images that are present. It has its own lock: a pull takes
// its time while containers go on.
type imageStore struct {
	mu    sync.RWMutex
	any   bool
	byID  map[string]*storedImage
	order []string          // IDs, oldest first
	refs  map[string]string // names, repository digests and IDs to IDs
}

func newImageStore(images []Image, anyImage bool) *imageStore {
	s := &imageStore{any: anyImage, byID: map[string]*storedImage{}, refs: map[string]string{}}
	for _, image := range images {
		s.put(image)
	}
	return s
}

// put makes an image present, or adds a name to one that is.
func (s *imageStore) put(image Image) *storedImage {
	image = complete(image)
	stored := s.byID[image.ID]
	if stored == nil {
		stored = &storedImage{Image: image}
		s.byID[image.ID] = stored
		s.order = append(s.order, image.ID)
		s.refs[image.ID] = image.ID
	}
	if !strings.Contains(image.Name, "@") && !slices.Contains(stored.tags, image.Name) {
		stored.tags = append(stored.tags, image.Name)
	}
	if digest := repository(image.Name) + "@" + image.Digest; !slices.Contains(stored.digests, digest) {
		stored.digests = append(stored.digests, digest)
		s.refs[digest] = image.ID
	}
	s.take(image.Name, stored)
	return stored
}

// take points a name at an image, taking it from the one that had it.
func (s *imageStore) take(name string, image *storedImage) {
	if before := s.byID[s.refs[name]]; before != nil && before != image {
		before.tags = slices.DeleteFunc(before.tags, func(tag string) bool { return tag == name })
	}
	s.refs[name] = image.ID
}

// find looks an image up by name, repository digest or ID. With any it makes up
// what is not there, without keeping it.
func (s *imageStore) find(ref string) *storedImage {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.lookup(ref)
}

func (s *imageStore) lookup(ref string) *storedImage {
	if id, ok := s.refs[ref]; ok {
		return s.byID[id]
	}
	if id, ok := s.refs[withTag(ref)]; ok && !isDigest(ref) {
		return s.byID[id]
	}
	if !s.any || validateImage(Image{Name: ref}) != nil {
		return nil
	}
	image := Image{Name: ref}
	if isDigest(ref) {
		image = Image{Name: "unnamed@" + ref, ID: ref}
	}
	made := newImageStore(nil, false)
	return made.put(image)
}

// resolve gives what a container keeps of an image, which then is present.
func (s *imageStore) resolve(ref string) (resolvedImage, bool) {
	s.mu.RLock()
	stored := s.lookup(ref)
	if stored != nil && s.byID[stored.ID] == stored {
		defer s.mu.RUnlock()
		return stored.resolved(ref), true
	}
	s.mu.RUnlock()
	if stored == nil {
		return resolvedImage{}, false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.put(stored.Image).resolved(ref), true
}

func (i *storedImage) resolved(ref string) resolvedImage {
	r := resolvedImage{id: i.ID, tag: ref, digest: i.digests[0]}
	if len(i.tags) > 0 {
		r.tag = i.tags[0]
	}
	if i.UID != nil {
		r.uid = *i.UID
	}
	return r
}

func (s *imageStore) remove(ref string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	stored := s.lookup(ref)
	if stored == nil || s.byID[stored.ID] != stored {
		return
	}
	delete(s.byID, stored.ID)
	s.order = slices.DeleteFunc(s.order, func(id string) bool { return id == stored.ID })
	for name, id := range s.refs {
		if id == stored.ID {
			delete(s.refs, name)
		}
	}
}

func (i *storedImage) message() *runtimeapi.Image {
	m := &runtimeapi.Image{
		Id: i.ID, RepoTags: slices.Clone(i.tags), RepoDigests: slices.Clone(i.digests),
		Size: i.Size, Username: i.Username, Pinned: i.Pinned,
	}
	switch {
	case i.UID != nil:
		m.Uid = &runtimeapi.Int64Value{Value: *i.UID}
	case i.Username == "":
		m.Uid = &runtimeapi.Int64Value{}
	}
	return m
}

// ListImages lists the images that are present, oldest first. With AnyImage those
// are the ones that have been pulled or used.
func (rt *Runtime) ListImages(ctx context.Context, filter *runtimeapi.ImageFilter) ([]*runtimeapi.Image, error) {
	if err := rt.enter(ctx, "ListImages", &runtimeapi.ListImagesRequest{Filter: filter}); err != nil {
		return nil, err
	}
	s := rt.images
	s.mu.RLock()
	defer s.mu.RUnlock()
	out := []*runtimeapi.Image{}
	if ref := filter.GetImage().GetImage(); ref != "" {
		if image := s.lookup(ref); image != nil {
			out = append(out, image.message())
		}
		return out, nil
	}
	for _, id := range s.order {
		out = append(out, s.byID[id].message())
	}
	return out, nil
}

// ImageStatus describes an image; without Image when it is not present.
func (rt *Runtime) ImageStatus(ctx context.Context, image *runtimeapi.ImageSpec, verbose bool) (*runtimeapi.ImageStatusResponse, error) {
	request := &runtimeapi.ImageStatusRequest{Image: image, Verbose: verbose}
	if err := rt.enter(ctx, "ImageStatus", request); err != nil {
		return nil, err
	}
	s := rt.images
	s.mu.RLock()
	defer s.mu.RUnlock()
	stored := s.lookup(image.GetImage())
	if stored == nil {
		return &runtimeapi.ImageStatusResponse{}, nil
	}
	response := &runtimeapi.ImageStatusResponse{Image: stored.message()}
	if !verbose {
		return response, nil
	}
	var err error
	response.Info, err = info(map[string]any{"imageSpec": map[string]any{"user": stored.Username}})
	return response, err
}

// PullImage asks Config.Pull for an image and returns its ID.
func (rt *Runtime) PullImage(ctx context.Context, image *runtimeapi.ImageSpec, auth *runtimeapi.AuthConfig, sandboxConfig *runtimeapi.PodSandboxConfig) (string, error) {
	request := &runtimeapi.PullImageRequest{Image: image, Auth: auth, SandboxConfig: sandboxConfig}
	if err := rt.enter(ctx, "PullImage", request); err != nil {
		return "", err
	}
	if err := validateImage(Image{Name: image.GetImage()}); err != nil {
		return "", status.Errorf(codes.InvalidArgument, "failed to parse image reference %q: %v", image.GetImage(), err)
	}
	pulled, err := rt.cfg.Pull(ctx, clone(image), clone(auth))
	if err != nil {
		return "", interceptError(ctx, err)
	}
	if pulled.Name == "" {
		pulled.Name = image.GetImage()
	}
	if err := validateImage(pulled); err != nil {
		return "", status.Errorf(codes.Internal, "what Config.Pull brought for %q is no image: %v", image.GetImage(), err)
	}
	rt.images.mu.Lock()
	defer rt.images.mu.Unlock()
	return rt.images.put(pulled).ID, nil
}

// RemoveImage removes an image with all its names; an absent one is as good as
// removed. Containers made from it are not affected.
func (rt *Runtime) RemoveImage(ctx context.Context, image *runtimeapi.ImageSpec) error {
	if err := rt.enter(ctx, "RemoveImage", &runtimeapi.RemoveImageRequest{Image: image}); err != nil {
		return err
	}
	rt.images.remove(image.GetImage())
	return nil
}

// ImageFsInfo describes the filesystem of images and of containers, which is the same.
func (rt *Runtime) ImageFsInfo(ctx context.Context) (*runtimeapi.ImageFsInfoResponse, error) {
	if err := rt.enter(ctx, "ImageFsInfo", &runtimeapi.ImageFsInfoRequest{}); err != nil {
		return nil, err
	}
	s := rt.images
	s.mu.RLock()
	defer s.mu.RUnlock()
	var used uint64
	for _, image := range s.byID {
		used += image.Size
	}
	filesystem := func() []*runtimeapi.FilesystemUsage {
		return []*runtimeapi.FilesystemUsage{{
			Timestamp:  time.Now().UnixNano(),
			FsId:       &runtimeapi.FilesystemIdentifier{Mountpoint: rt.cfg.ImageFilesystem},
			UsedBytes:  &runtimeapi.UInt64Value{Value: used},
			InodesUsed: &runtimeapi.UInt64Value{Value: uint64(len(s.byID))},
		}}
	}
	return &runtimeapi.ImageFsInfoResponse{ImageFilesystems: filesystem(), ContainerFilesystems: filesystem()}, nil
}
