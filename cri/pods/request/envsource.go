package request

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/internal/podfacts"
)

// maxBadNames bounds the size in bytes of the names in an event.
const maxBadNames = 10 << 10

// from adds all variables of a config map or secret, sorted by key. Keys that are not valid names
// are skipped and listed in an event.
func (e *envBuild) from(ctx context.Context, source *v1.EnvFromSource) error {
	var keys []string
	var value func(key string) string
	var object string
	switch {
	case source.ConfigMapRef != nil:
		c, err := e.configMap(ctx, source.ConfigMapRef.Name, isTrue(source.ConfigMapRef.Optional))
		if c == nil {
			return err
		}
		keys, object = slices.Collect(maps.Keys(c.Data)), "configMap "+e.in.Pod.Namespace+"/"+source.ConfigMapRef.Name
		value = func(key string) string { return c.Data[key] }
	case source.SecretRef != nil:
		s, err := e.secret(ctx, source.SecretRef.Name, isTrue(source.SecretRef.Optional))
		if s == nil {
			return err
		}
		keys, object = slices.Collect(maps.Keys(s.Data)), "secret "+e.in.Pod.Namespace+"/"+source.SecretRef.Name
		value = func(key string) string { return string(s.Data[key]) }
	default: // a source kind of a newer API: without its variables the container would be incomplete
		return errNoSource
	}
	if len(source.Prefix) > podfacts.MaxExecString {
		return fmt.Errorf("prefix: %w", errLongVariable)
	}
	slices.Sort(keys)
	var bad []string
	badSize := 0
	for _, key := range keys {
		switch v := value(key); {
		case !goodEnvName(source.Prefix + key):
			if badSize += len(source.Prefix) + len(key); badSize <= maxBadNames {
				bad = append(bad, source.Prefix+key)
			}
		case strings.Contains(v, "\x00"):
			return fmt.Errorf("key %s of %s: %w", key, object, errNUL)
		default:
			if err := e.env.set(source.Prefix+key, v); err != nil {
				return fmt.Errorf("key %s of %s: %w", key, object, err)
			}
		}
	}
	if badSize > 0 {
		e.cfg.Event(podfacts.Reference(e.in.Pod), v1.EventTypeWarning, "InvalidEnvironmentVariableNames",
			fmt.Sprintf("Keys %q from the EnvFrom %s were skipped since they are considered invalid environment variable names.", bad, object))
	}
	return nil
}

// configMap returns a config map, or nil if it is optional and missing.
func (e *envBuild) configMap(ctx context.Context, name string, optional bool) (*v1.ConfigMap, error) {
	if c, ok := e.configMaps[name]; ok {
		return c, nil
	}
	if e.cfg.ConfigMaps == nil {
		return missing[v1.ConfigMap](fmt.Errorf("configmap %q: this agent has no config maps: %w", name, ErrNotFound), optional)
	}
	c, err := e.cfg.ConfigMaps.ConfigMap(ctx, e.in.Pod.Namespace, name)
	if err != nil {
		return missing[v1.ConfigMap](err, optional)
	}
	e.configMaps[name] = c
	return c, nil
}

// secret returns a secret, or nil if it is optional and missing.
func (e *envBuild) secret(ctx context.Context, name string, optional bool) (*v1.Secret, error) {
	if s, ok := e.secrets[name]; ok {
		return s, nil
	}
	if e.cfg.Secrets == nil {
		return missing[v1.Secret](fmt.Errorf("secret %q: this agent has no secrets: %w", name, ErrNotFound), optional)
	}
	s, err := e.cfg.Secrets.Secret(ctx, e.in.Pod.Namespace, name)
	if err != nil {
		return missing[v1.Secret](err, optional)
	}
	e.secrets[name] = s
	return s, nil
}

// missing ignores a not-found error for an optional object, and returns all other errors.
func missing[T any](err error, optional bool) (*T, error) {
	if optional && isNotFound(err) {
		return nil, nil
	}
	return nil, err
}

func (e *envBuild) configMapKey(ctx context.Context, ref *v1.ConfigMapKeySelector) (string, bool, error) {
	c, err := e.configMap(ctx, ref.Name, isTrue(ref.Optional))
	if c == nil {
		return "", false, err
	}
	value, ok := c.Data[ref.Key]
	if !ok && !isTrue(ref.Optional) {
		return "", false, fmt.Errorf("couldn't find key %v in ConfigMap %v/%v", ref.Key, e.in.Pod.Namespace, ref.Name)
	}
	return value, ok, nil
}

func (e *envBuild) secretKey(ctx context.Context, ref *v1.SecretKeySelector) (string, bool, error) {
	s, err := e.secret(ctx, ref.Name, isTrue(ref.Optional))
	if s == nil {
		return "", false, err
	}
	value, ok := s.Data[ref.Key]
	if !ok && !isTrue(ref.Optional) {
		return "", false, fmt.Errorf("couldn't find key %v in Secret %v/%v", ref.Key, e.in.Pod.Namespace, ref.Name)
	}
	return string(value), ok, nil
}

// maxEnvFile bounds the size of a file with variables. It equals the size limit of a config map
// or secret.
const maxEnvFile = 1 << 20

// fileKey reads a variable from a file that usually an init container wrote (KEP-3721). Only the
// key can be optional: a missing file is an error, so that the start is retried until the file
// exists.
func (e *envBuild) fileKey(ctx context.Context, ref *v1.FileKeySelector) (string, bool, error) {
	optional := isTrue(ref.Optional)
	volume, err := e.volume(ctx, e.in.Pod, ref.VolumeName)
	if err != nil {
		return "", false, err
	}
	content, err := readVolumeFile(volume.Path, ref.Path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "", false, fmt.Errorf("fileKeyRef: file %q not found in volume %q", ref.Path, ref.VolumeName)
	case err != nil: // the cause may reveal details of the node
		return "", false, hide(fmt.Sprintf("fileKeyRef: cannot read file %q of volume %q", ref.Path, ref.VolumeName), err)
	}
	value, err := parseEnvFile(string(content), ref.Key)
	switch {
	case err != nil:
		return "", false, fmt.Errorf("fileKeyRef: file %q of volume %q: %w", ref.Path, ref.VolumeName, err)
	case value == "" && !optional:
		return "", false, fmt.Errorf("environment variable key %q not found in file %q", ref.Key, ref.Path)
	}
	return value, value != "", nil
}

// readVolumeFile reads a regular file of a volume. It follows no symbolic link out of the volume,
// and does not block on pipes and devices that a container may have placed there.
func readVolumeFile(volume, path string) ([]byte, error) {
	root, err := os.OpenRoot(volume)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	open := func(path string) (*os.File, error) {
		f, err := root.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0)
		if err != nil {
			return nil, err
		}
		info, err := f.Stat()
		if err == nil && !info.Mode().IsRegular() {
			err = errors.New("not a regular file")
		}
		if err != nil {
			f.Close()
			return nil, err
		}
		return f, nil
	}
	return readFile(open, path, maxEnvFile)
}

// hidden is an error whose cause goes only to the agent's log, because it reveals details of the
// node.
type hidden struct {
	message string
	cause   error
}

func hide(message string, cause error) error { return &hidden{message: message, cause: cause} }

func (h *hidden) Error() string { return h.message }

func (h *hidden) Unwrap() error { return h.cause }
