//! The application that an explanation is about.

use api::AppRef;
use wire::AppId;

use crate::plane::Plane;

pub(super) fn application(plane: &Plane, id: AppId) -> Option<AppRef> {
    (id != AppId::NONE).then(|| AppRef {
        name: plane.policy().app_name(id),
        id: id.0,
        block: plane.policy().block(id),
    })
}
