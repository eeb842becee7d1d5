// Package projected implements the plugins for configMap, secret, downwardAPI and projected
// volumes. The agent writes the files of these volumes itself.
//
//	plugins, err := projected.New(projected.Config{Backing: emptyDirs, ConfigMaps: api, Secrets: api})
//	...
//	m, err := manager.New(manager.Config{Plugins: append(plugins, emptyDirs), ...})
//
// A configMap volume is on the node's disk, the others are in memory. Volumes are updated at
// each sync of their pod, when one of their objects changes, and before a token expires. The
// plugins are safe for concurrent use.
//
// If any source fails, no file is written. An optional object that does not exist has no files,
// but an object that cannot be read is an error. A path that two sources name is rejected, as
// by the API server, unless it is the path of a token. If sources have a file of the same path
// otherwise, the later source wins. podCertificate is rejected.
//
// Pods with their own user namespace (hostUsers false) need no special treatment: the runtime
// maps the ids of the files in its mount of the volume, as for other kubelets.
//
// # Files on the disk
//
// The files of a volume are replaced in one step, as by every kubelet:
//
//	volume/
//	  ..2026_01_31_12_00_00.123456789/   one version, complete
//	      key  folder/key
//	  ..data   -> ..2026_01_31_12_00_00.123456789
//	  key      -> ..data/key
//	  folder   -> ..data/folder
//
// A new version is written beside the old one; a rename of ..data then publishes it. Readers of
// ..data, or of a descriptor of its target, see files of one version only. A crash, a full disk
// or an error leaves the old version readable; the next write removes incomplete versions.
//
// An example that runs: Example in example_test.go.
package projected
