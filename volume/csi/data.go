package csi

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/internal/fs"
	"github.com/podwright/podwright/volume"
)

// data is the content of vol_data.json.
type data struct {
	SpecVolID           string `json:"specVolID"`
	VolumeHandle        string `json:"volumeHandle"`
	DriverName          string `json:"driverName"`
	NodeName            string `json:"nodeName"`
	AttachmentID        string `json:"attachmentID"`
	VolumeLifecycleMode string `json:"volumeLifecycleMode"`
	SELinuxMountContext string `json:"seLinuxMountContext"`
}

const (
	dataFile   = "vol_data.json"
	folderMode = 0o750

	persistent = "Persistent"
	ephemeral  = "Ephemeral"
)

// id returns the id of a shared volume (see VolumeID), or "" for an inline volume.
func (d *data) id() string {
	if d.VolumeLifecycleMode == ephemeral {
		return ""
	}
	return d.DriverName + "^" + d.VolumeHandle
}

// AttachmentName returns the name of the VolumeAttachment for a volume and a node.
func AttachmentName(driver, handle, node string) string { return sum("csi-", handle+driver+node) }

// write creates the folder dir with vol_data.json. It leaves a file with the same content.
func (d *data) write(dir string) error {
	if old, err := readData(dir); err == nil && *old == *d {
		return nil
	}
	if err := os.MkdirAll(dir, folderMode); err != nil {
		return err
	}
	text, err := json.Marshal(d)
	if err != nil {
		return err
	}
	return fs.WriteAtomic(filepath.Join(dir, dataFile), text, 0o600)
}

// errData is wrapped by the error for a vol_data.json with invalid or missing content.
var errData = errors.New("no valid data of a CSI volume")

// readData reads vol_data.json from a folder. Errors contain the path of the file.
func readData(dir string) (*data, error) {
	file := filepath.Join(dir, dataFile)
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	d := &data{}
	if err := json.Unmarshal(text, d); err != nil {
		return nil, fmt.Errorf("%s: %w: %w", file, errData, err)
	}
	if d.DriverName == "" || d.VolumeHandle == "" {
		return nil, fmt.Errorf("%s: %w: driverName or volumeHandle is empty", file, errData)
	}
	return d, nil
}

// removeData removes vol_data.json, its temporary files from interrupted writes, and then the
// folder, which must be empty.
func removeData(dir string) error {
	file := filepath.Join(dir, dataFile)
	if err := fs.RemoveTemporary(file); err != nil {
		return err
	}
	for _, path := range []string{file, dir} {
		if err := fs.RemoveOne(path); err != nil {
			return err
		}
	}
	return nil
}

func (p *Plugin) dataOf(spec *volume.Spec, pod types.UID) *data {
	d := &data{SpecVolID: spec.Name, DriverName: driverOf(spec), NodeName: p.cfg.NodeName, VolumeLifecycleMode: persistent}
	if spec.Persistent != nil {
		d.VolumeHandle = spec.Persistent.Spec.CSI.VolumeHandle
	} else {
		d.VolumeHandle = sum("csi-", string(pod)+spec.Name)
		d.VolumeLifecycleMode = ephemeral
	}
	d.AttachmentID = AttachmentName(d.DriverName, d.VolumeHandle, d.NodeName)
	return d
}

func sum(prefix, text string) string { return fmt.Sprintf("%s%x", prefix, sha256.Sum256([]byte(text))) }

type volumePaths struct {
	// data is the folder with vol_data.json. target is the path for the driver.
	data, target string
	// link and global are links to target. They are set for devices only.
	link, global string
}

func (p *Plugin) pathsOf(dir, name string, pod types.UID, block bool) volumePaths {
	if !block {
		return volumePaths{data: dir, target: filepath.Join(dir, "mount")}
	}
	return volumePaths{
		data:   p.blockData(name),
		target: p.devices("publish", name, string(pod)),
		link:   dir,
		global: p.devices(name, "dev", string(pod)),
	}
}

// devices returns a path below the folder for devices.
func (p *Plugin) devices(path ...string) string {
	return filepath.Join(append([]string{p.cfg.Layout.Plugin(Name), "volumeDevices"}, path...)...)
}

func (p *Plugin) blockData(name string) string { return p.devices(name, "data") }

// shared returns the folder of a staged volume with files.
func (p *Plugin) shared(driver, handle string) string {
	return filepath.Join(p.cfg.Layout.Plugin(Name), driver, sum("", handle))
}
