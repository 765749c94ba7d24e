package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// volume is where the volume of this id is, or would be.
func (d *driver) volume(id string) (string, error) {
	if id == "" || strings.ContainsAny(id, "/\x00") || id == "." || id == ".." {
		return "", status.Errorf(codes.InvalidArgument, "%q is no volume's name", id)
	}
	return filepath.Join(d.folder, id), nil
}

func (d *driver) existing(id string) (string, error) {
	volume, err := d.volume(id)
	if err == nil && !mounted(volume) {
		err = status.Errorf(codes.NotFound, "there is no volume %s", id)
	}
	return volume, err
}

// mounted says whether a file system of its own is there.
func mounted(path string) bool {
	var here, above unix.Stat_t
	if unix.Lstat(path, &here) != nil || unix.Lstat(filepath.Dir(path), &above) != nil {
		return false
	}
	return here.Dev != above.Dev
}

func create(volume string, size int64) error {
	if err := os.MkdirAll(volume, 0o750); err != nil {
		return err
	}
	options := fmt.Sprintf("size=%d,mode=0777", size)
	return said("mount", volume, unix.Mount("tests", volume, "tmpfs", 0, options))
}

// grow changes the file system itself, so each mount of it has the new size at once.
func grow(volume string, size int64) error {
	return said("remount", volume, unix.Mount("", volume, "", unix.MS_REMOUNT, fmt.Sprintf("size=%d", size)))
}

func bind(volume, target string, readonly bool) error {
	if mounted(target) {
		return nil
	}
	if err := os.MkdirAll(target, 0o750); err != nil {
		return err
	}
	if err := unix.Mount(volume, target, "", unix.MS_BIND, ""); err != nil || !readonly {
		return said("mount", target, err)
	}
	return said("remount", target, unix.Mount("", target, "", unix.MS_REMOUNT|unix.MS_BIND|unix.MS_RDONLY, ""))
}

// unmount leaves nothing there; there may be nothing already.
func unmount(path string) error {
	if mounted(path) {
		if err := unix.Unmount(path, 0); err != nil {
			return said("unmount", path, err)
		}
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

type space struct{ total, free int64 }

func stats(path string) (space, error) {
	var found unix.Statfs_t
	if err := unix.Statfs(path, &found); err != nil {
		return space{}, said("statfs", path, err)
	}
	return space{total: int64(found.Blocks) * found.Bsize, free: int64(found.Bavail) * found.Bsize}, nil
}

func said(what, path string, err error) error {
	if err != nil {
		return status.Errorf(codes.Internal, "%s %s: %v", what, path, err)
	}
	return nil
}
