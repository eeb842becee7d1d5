package fake

import (
	"context"
	"runtime"
	"slices"
	"strconv"
	"sync"

	"github.com/distribution/reference"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// storedImage is a present image with its names.
type storedImage struct {
	Image
	tags    []string
	digests []string // repository digests
}

// resolvedImage is a container's reference to its image. Names are looked up, because they change.
type resolvedImage struct {
	id    string
	uid   int64
	store *imageStore
}

// names returns the image's first tag, or "" without tags, and its reference: the repository
// digest, or the ID after the removal of the image.
func (i *resolvedImage) names() (tag, ref string) {
	i.store.mu.RLock()
	defer i.store.mu.RUnlock()
	stored := i.store.byID[i.id]
	if stored == nil {
		return "", i.id
	}
	if len(stored.tags) > 0 {
		tag = stored.tags[0]
	}
	return tag, stored.digests[0]
}

// imageStore has the present images. It has its own lock, so that slow pulls do not block
// containers.
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

// reset replaces all images.
func (s *imageStore) reset(images []Image) {
	fresh := newImageStore(images, s.any)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.byID, s.order, s.refs = fresh.byID, fresh.order, fresh.refs
}

// put adds a valid image, or adds a name to a present one.
func (s *imageStore) put(image Image) *storedImage {
	image, r := complete(image)
	stored := s.byID[image.ID]
	if stored == nil {
		stored = &storedImage{Image: image}
		s.byID[image.ID] = stored
		s.order = append(s.order, image.ID)
		s.refs[image.ID] = image.ID
	}
	if digestIn(r) == "" {
		if !slices.Contains(stored.tags, image.Name) {
			stored.tags = append(stored.tags, image.Name)
		}
		s.take(image.Name, stored)
	}
	digest := r.Name() + "@" + image.Digest
	if !slices.Contains(stored.digests, digest) {
		stored.digests = append(stored.digests, digest)
	}
	s.refs[digest] = image.ID
	return stored
}

// take moves a name to an image, from its previous image.
func (s *imageStore) take(name string, image *storedImage) {
	if before := s.byID[s.refs[name]]; before != nil && before != image {
		before.tags = slices.DeleteFunc(before.tags, func(tag string) bool { return tag == name })
	}
	s.refs[name] = image.ID
}

// lookup finds an image by name, repository digest or ID. If any is set it invents a missing image
// without storing it. The caller holds s.mu.
func (s *imageStore) lookup(ref string) *storedImage {
	if id, ok := s.refs[ref]; ok {
		return s.byID[id]
	}
	if isDigest(ref) {
		if !s.any {
			return nil
		}
		return newImageStore(nil, false).put(Image{Name: "unnamed@" + ref, ID: ref})
	}
	name, err := reference.ParseDockerRef(ref) // with a tag and a digest the digest applies
	if err != nil {
		return nil
	}
	if id, ok := s.refs[name.String()]; ok {
		return s.byID[id]
	}
	if !s.any {
		return nil
	}
	return newImageStore(nil, false).put(Image{Name: ref})
}

// resolve returns a container's reference to an image, and stores the image if it was invented.
func (s *imageStore) resolve(ref string) (resolvedImage, bool) {
	s.mu.RLock()
	stored := s.lookup(ref)
	if stored != nil && s.byID[stored.ID] == stored {
		defer s.mu.RUnlock()
		return s.resolved(stored), true
	}
	s.mu.RUnlock()
	if stored == nil {
		return resolvedImage{}, false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.resolved(s.put(stored.Image)), true
}

func (s *imageStore) resolved(image *storedImage) resolvedImage {
	r := resolvedImage{id: image.ID, store: s}
	if image.UID != nil {
		r.uid = *image.UID
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

// spec returns an image's part of a verbose status, in containerd's format.
func (i *storedImage) spec() any {
	user := i.Username
	if i.UID != nil {
		user = strconv.FormatInt(*i.UID, 10)
	}
	layer := digestOf("layer " + i.ID)
	return map[string]any{
		"chainID": layer,
		"imageSpec": map[string]any{
			"architecture": runtime.GOARCH, "os": "linux", "config": map[string]any{"User": user},
			"rootfs": map[string]any{"type": "layers", "diff_ids": []string{layer}},
		},
	}
}

// ListImages lists the present images, oldest first. With AnyImage these are the pulled and used
// ones. As with containerd, the filter has no effect.
func (rt *Runtime) ListImages(ctx context.Context, filter *runtimeapi.ImageFilter) ([]*runtimeapi.Image, error) {
	if err := rt.enter(ctx, "ListImages", &runtimeapi.ListImagesRequest{Filter: filter}); err != nil {
		return nil, err
	}
	s := rt.images
	s.mu.RLock()
	defer s.mu.RUnlock()
	out := make([]*runtimeapi.Image, 0, len(s.order))
	for _, id := range s.order {
		out = append(out, s.byID[id].message())
	}
	return out, nil
}

// ImageStatus returns the status of an image. The response has no Image if it is absent.
func (rt *Runtime) ImageStatus(ctx context.Context, image *runtimeapi.ImageSpec, verbose bool) (*runtimeapi.ImageStatusResponse, error) {
	request := &runtimeapi.ImageStatusRequest{Image: image, Verbose: verbose}
	if err := rt.enter(ctx, "ImageStatus", request); err != nil {
		return nil, err
	}
	if err := needImage(image); err != nil {
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
	response.Info, err = info(stored.spec())
	return response, err
}

// RemoveImage removes an image with all its names. An absent image is no error. Containers made
// from it are not affected.
func (rt *Runtime) RemoveImage(ctx context.Context, image *runtimeapi.ImageSpec) error {
	if err := rt.enter(ctx, "RemoveImage", &runtimeapi.RemoveImageRequest{Image: image}); err != nil {
		return err
	}
	if err := needImage(image); err != nil {
		return err
	}
	rt.images.remove(image.GetImage())
	return nil
}

// ImageFsInfo returns the filesystems of images and containers, which are the same by default.
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
	filesystem := func(mountpoint string) []*runtimeapi.FilesystemUsage {
		return []*runtimeapi.FilesystemUsage{{
			Timestamp:  rt.now().UnixNano(),
			FsId:       &runtimeapi.FilesystemIdentifier{Mountpoint: mountpoint},
			UsedBytes:  &runtimeapi.UInt64Value{Value: used},
			InodesUsed: &runtimeapi.UInt64Value{Value: uint64(len(s.byID))},
		}}
	}
	return &runtimeapi.ImageFsInfoResponse{ImageFilesystems: filesystem(rt.cfg.ImageFilesystem), ContainerFilesystems: filesystem(rt.cfg.ContainerFilesystem)}, nil
}
