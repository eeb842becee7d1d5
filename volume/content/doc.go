// Package content keeps volumes whose files the agent writes itself: those of config
// maps, secrets, the downward API and projected volumes.
//
// A Payload is what a volume's files shall be. Write makes a folder hold it in one
// step, as every kubelet does:
//
//	volume/
//	  ..2026_01_31_12_00_00.123456789/   one version, whole
//	      key  folder/key
//	  ..data   -> ..2026_01_31_12_00_00.123456789
//	  key      -> ..data/key
//	  folder   -> ..data/folder
//
// A new version is written beside the old one and then ..data is renamed over, which
// is one step for who reads: what is read through ..data (or through a descriptor of
// the folder that it led to) is all of one version. A crash, a full disk or an error
// leaves the old version readable; the next Write clears away what was left behind.
//
// Volumes is what the plugins stand on: it has a folder made on disk or in memory (by
// the plugin for emptyDir volumes), writes payloads into it, and takes it down again.
// For a payload that it has written already it does not more than to look whether the
// folder is as it was.
//
// Examples that run: ExampleWrite in write_test.go, ExampleVolumes in volumes_test.go.
package content
